import type { ProfiledStage } from '../contract/gen/node_relay_pb.ts';
import type { CheckedProfile } from './check-profile.ts';

/** A node's profile as lines: a heading a stage, then a kernel each, what takes longest first. */
export function profileText(rank: number, { stages, problem }: CheckedProfile): string {
  const lines =
    stages.length === 0 ? [`Rank ${rank}: no step ran.`] : stages.flatMap((stage) => stageLines(rank, stage));
  if (problem !== '') lines.push(`Rank ${rank} tells less than was asked for: ${problem}.`);
  return lines.join('\n');
}

function stageLines(rank: number, { stage, steps, clock, kernels }: ProfiledStage): string[] {
  const total = kernels.reduce((sum, { calls, ms }) => sum + calls * ms, 0);
  const what = stage === 'all' ? '' : `${stage}, `;
  const heading = `Rank ${rank}, ${what}${steps} ${steps === 1 ? 'step' : 'steps'}, ${total.toFixed(2)} ms in kernels, each alone and repeated (${clock}):`;
  return [
    heading,
    ...kernels.map(({ kernel, calls, ms, gbytesPerSecond, gflops, repeats }) => {
      const share = total > 0 ? `${((100 * calls * ms) / total).toFixed(1)} %` : '-';
      const rates = [
        gbytesPerSecond === undefined ? '' : `, ${gbytesPerSecond.toFixed(2)} GB/s`,
        gflops === undefined ? '' : `, ${gflops.toFixed(1)} GFLOP/s`,
      ].join('');
      const each = `${Number(calls.toFixed(1))} calls of ${ms.toFixed(3)} ms`;
      return `  ${kernel}: ${each}, ${(calls * ms).toFixed(2)} ms a step, ${share}${rates}, ${repeats} repeats`;
    }),
  ];
}
