import type { Profiled, ProfiledKernel, ProfiledStage } from '../contract/gen/node_relay_pb.ts';
import { Lie } from './lie.ts';

const STAGES: readonly string[] = ['all', 'prefill', 'decode'];
/** Stages of one profile. */
const MOST_STAGES = 2;
/** Kernels of one stage. */
const MOST_KERNELS = 256;
const MOST_CHARACTERS = 200;

/** A node's answer, as far as it can be true. Throws Lie. */
export function checkProfile({ stages, problem }: Profiled): CheckedProfile {
  if (stages.length > MOST_STAGES) throw new Lie('more stages than a profile has');
  if (new Set(stages.map(({ stage }) => stage)).size < stages.length) throw new Lie('a stage of a profile twice');
  return { stages: stages.map(checkStage), problem: printable(problem) };
}

export interface CheckedProfile {
  readonly stages: readonly ProfiledStage[];
  readonly problem: string;
}

function checkStage(stage: ProfiledStage): ProfiledStage {
  if (!STAGES.includes(stage.stage)) throw new Lie('a stage that is none');
  if (stage.steps === 0) throw new Lie('a profile of no steps');
  if (stage.kernels.length > MOST_KERNELS) throw new Lie('more kernels than a profile tells of');
  return { ...stage, clock: printable(stage.clock), kernels: stage.kernels.map(checkKernel) };
}

function checkKernel(kernel: ProfiledKernel): ProfiledKernel {
  const { calls, ms, gbytesPerSecond = 0, gflops = 0 } = kernel;
  for (const figure of [calls, ms, gbytesPerSecond, gflops]) {
    if (!(figure >= 0 && Number.isFinite(figure))) throw new Lie('a figure of a kernel that can not be');
  }
  return { ...kernel, kernel: printable(kernel.kernel) };
}

/** Short: a stranger wrote it. × and µ are in what pages tell. */
function printable(text: string): string {
  return text.replace(/[^\x20-\x7e×µ]+/g, ' ').slice(0, MOST_CHARACTERS);
}
