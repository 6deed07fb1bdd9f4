import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Code } from '@connectrpc/connect';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ContractError } from '../../contract/contract-error.ts';
import { Job } from '../job.ts';
import { RunningJob } from '../running-jobs.ts';
import { normalised } from '../testing/normalised.ts';
import { FLAGGED_MS, flaggedSample, MadeSamples, MOST_ENDED, MOST_FLAGGED } from './made-samples.ts';

/** What a client was told of a sample, and by whom, kept beside the job. */
interface Account {
  readonly job: Job;
  readonly index: number;
  /** Who made each id, and who told its end. */
  readonly makers: string[];
  finisher?: string;
  /** Ids that came in chunks. */
  told: number;
  flagged: boolean;
  endedAt?: number;
}

const NODES = ['a', 'b', 'c'];
const OPS = ['tokens', 'tokens', 'tokens', 'move', 'finish', 'abort', 'leave', 'fail', 'wait', 'flag'] as const;

test('whatever comes of a job: each sample that a liar told its client of is flagged, once, and no other', () => {
  const steps = fc.array(
    fc.record({
      op: fc.constantFrom(...OPS),
      job: fc.nat(2),
      sample: fc.nat(1),
      node: fc.constantFrom(...NODES),
      count: fc.integer({ min: 1, max: 3 }),
    }),
    { minLength: 10, maxLength: 60 },
  );
  const kinds = fc.tuple(
    ...[0, 1, 2].map(() => fc.record({ stream: fc.boolean(), interval: fc.integer({ min: 1, max: 4 }) })),
  );
  fc.assert(
    fc.property(steps, kinds, (history, settings) => {
      let now = 0;
      const made = new MadeSamples(() => now);
      const jobs = settings.map(
        ({ stream, interval: streamInterval }, at) => new Job(BigInt(at), normalised({ n: 2, stream, streamInterval })),
      );
      const accounts: Account[] = jobs.flatMap((job) =>
        job.samples.map(({ index }) => ({ job, index, makers: [], told: 0, flagged: false })),
      );
      const of = (job: Job) => accounts.filter((one) => one.job === job);
      const hosts = new Map(jobs.map((job) => [job, new RunningJob(job, 'a', 100, 1n)]));
      const nodes = new Map(jobs.map((job) => [job, 'a']));
      for (const job of jobs) {
        job.onEnd = () => {
          for (const one of of(job)) one.endedAt = now;
          made.jobEnded(job);
        };
      }
      for (const { op, job: which, sample: index, node, count } of history) {
        const job = jobs[which]!;
        const sample = job.samples[index]!;
        const account = of(job)[index]!;
        const open = job.outcome === undefined && sample.finish === undefined;
        if (op === 'tokens' && open) {
          hosts.get(job)!.makes(sample);
          for (let at = 0; at < count; at++) account.makers.push(nodes.get(job)!);
          job.append(sample, { ids: Array.from({ length: count }, () => 9) });
        } else if (op === 'finish' && open) {
          hosts.get(job)!.makes(sample);
          account.finisher = nodes.get(job)!;
          job.finishSample(sample, { reason: 'length' });
        } else if (op === 'move') {
          hosts.set(job, new RunningJob(job, node, 100, 1n));
          nodes.set(job, node);
        } else if (op === 'abort') job.abort();
        else if (op === 'leave' && job.outcome === undefined) job.leave();
        else if (op === 'fail') job.fail(new ContractError(Code.Internal, 'fails'));
        else if (op === 'wait') now += FLAGGED_MS / 2;
        else if (op === 'flag') {
          const wanted = accounts.filter((one) => {
            const { endedAt, flagged, finisher, makers } = one;
            if (flagged || (endedAt !== undefined && now - endedAt > FLAGGED_MS)) return false;
            const { outcome, request } = one.job;
            // What goes on, or came to its end, is told as a whole; of what was broken off, what came in chunks, and an end.
            const whole = outcome === undefined || outcome === 'complete';
            if (whole) return makers.includes(node) || finisher === node;
            if (!request.stream) return false;
            const last = one.job.samples[one.index]!.finish !== undefined;
            return makers.slice(0, last ? undefined : one.told).includes(node) || finisher === node;
          });
          for (const one of wanted) one.flagged = true;
          const name = (id: string, at: number) => `${id}/${at}`;
          const got = made.flag(node, jobs).map(({ job: id, index: at }) => name(id, at));
          expect(got.sort()).toEqual(wanted.map((one) => name(String(one.job.id), one.index)).sort());
        }
        // The client reads all at once.
        for (let chunk = job.nextChunk(); chunk; chunk = job.nextChunk()) {
          of(job)[chunk.sample.index]!.told = chunk.to;
          job.wrote(chunk);
        }
      }
    }),
    { numRuns: 300 },
  );
});

/** A job of one id, made at a node, that ended. */
function ended(id: number, nodeId: string): Job {
  const job = new Job(BigInt(id), normalised());
  const [sample] = job.samples;
  new RunningJob(job, nodeId, 1, 1n).makes(sample!);
  job.append(sample!, { ids: [9] });
  job.finishSample(sample!, { reason: 'length' });
  return job;
}

test('the newest thousand of a node are given, once; of all nodes the newest are remembered', () => {
  const made = new MadeSamples(() => 0);
  made.jobEnded(ended(0, 'first'));
  for (let id = 1; id <= MOST_FLAGGED + 200; id++) made.jobEnded(ended(id, 'one'));
  const flagged = made.flag('one', []);
  expect(flagged.length).toBe(MOST_FLAGGED);
  expect(flagged[0]?.job).toBe('201');
  expect(flagged.at(-1)?.job).toBe('1200');
  expect(made.flag('one', [])).toEqual([]);
  const other = ended(5_000, 'other');
  for (let at = MOST_FLAGGED + 201; at < MOST_ENDED; at++) made.jobEnded(other);
  // The ring is full, and the next takes the first one's place.
  made.jobEnded(other);
  expect(made.flag('first', [])).toEqual([]);
  made.jobEnded(ended(6_000, 'last'));
  expect(made.flag('last', []).map(({ job }) => job)).toEqual(['6000']);
});

test('a sample that is remembered is some hundred bytes, however long the id that its client gave', () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const idOf = (at: number) => Buffer.alloc(4096, 97 + (at % 26)).toString('latin1');
  gc();
  const before = process.memoryUsage().heapUsed;
  const kept = Array.from({ length: 4096 }, (_, at) =>
    flaggedSample(new Job(1n, normalised({ requestId: idOf(at) })), { index: 0 }),
  );
  gc();
  const each = (process.memoryUsage().heapUsed - before) / kept.length;
  expect(each).toBeLessThan(1_000);
  expect(kept[27]?.request).toBe('b'.repeat(200));
});
