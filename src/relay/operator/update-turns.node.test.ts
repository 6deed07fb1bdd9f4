import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-node';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Operator } from '../../contract/gen/operator_pb.ts';
import { SglangScheduler } from '../../contract/gen/sglang_scheduler_pb.ts';
import { openModel } from '../model/open-model.ts';
import { benchPerTest, idsOf, PROMPT } from '../testing/bench-per-test.ts';
import { collect } from '../testing/grpc-client.ts';
import { writeOtherWeights } from '../testing/other-weights.ts';
import { MODEL_DIR, type RelayBench, requestOf } from '../testing/relay-bench.ts';
import { nextOf } from '../testing/scripted-engine.ts';
import type { ScriptedNode } from '../testing/scripted-node.ts';

const start = benchPerTest();
const TOKENS = 24;
const RUNS = 12;

/** What a model of that digest makes. */
const nextBy = (digest: string) => (ids: readonly number[], index: number) =>
  nextOf([Number.parseInt(digest.slice(0, 6), 16), ...ids], index);
function outputBy(digest: string, index: number): number[] {
  const ids = [...PROMPT];
  for (let made = 0; made < TOKENS; made++) ids.push(nextBy(digest)(ids, index));
  return ids.slice(PROMPT.length);
}

/** A node as a page has it: it attaches with what the relay serves, again and again, until it is ended. */
function keptNode(on: RelayBench) {
  let ended = false;
  let crashed = false;
  let node: ScriptedNode | undefined;
  const run = async () => {
    while (!ended) {
      const { digest } = on.relay.model;
      await new Promise((resolve) => setTimeout(resolve, 5));
      node = await on.node({ modelDigest: digest, next: nextBy(digest), stepMs: 2 }).catch((error: unknown) => {
        // It came with what was served a moment ago.
        expect(ConnectError.from(error).code).toBe(Code.FailedPrecondition);
        return undefined;
      });
      const one = node;
      crashed = false;
      while (one && !ended && !crashed && !one.streamError) await new Promise((resolve) => setTimeout(resolve, 5));
      one?.kill();
    }
  };
  const running = run();
  return {
    crash: () => {
      crashed = true;
      node?.kill();
    },
    end: () => {
      ended = true;
      return running;
    },
  };
}

test.runIf(process.env.SHOAL_LONG === '1')(
  'whatever comes meanwhile: each answer is of one model, each stream ends, and the last weights are served',
  {
    timeout: 240_000,
  },
  async () => {
    const home = mkdtempSync(join(tmpdir(), 'shoal-turns-'));
    const models = [MODEL_DIR, ...[1, 2].map((seed) => writeOtherWeights(join(home, String(seed)), seed))];
    const digests = await Promise.all(
      models.map(async (path) => (await openModel(path, { name: 'stories260K' })).digest),
    );
    const on = await start({ updateDrainMs: 60, updateLoadMs: 800, leaseMs: 600, heartbeatMs: 100, auditShare: 1 });
    const operator = createClient(Operator, createGrpcWebTransport({ baseUrl: on.webUrl, httpVersion: '1.1' }));
    const ask = (n = 1) =>
      collect(
        on.client.stream(SglangScheduler.method.generate, requestOf(PROMPT, { maxNewTokens: TOKENS, n })),
        20_000,
      );
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ op: fc.constant('ask' as const), n: fc.integer({ min: 1, max: 3 }) }) },
      { weight: 3, arbitrary: fc.record({ op: fc.constant('update' as const), to: fc.nat(2) }) },
      { weight: 2, arbitrary: fc.record({ op: fc.constant('cancelled' as const), to: fc.nat(2), ms: fc.nat(60) }) },
      { weight: 1, arbitrary: fc.record({ op: fc.constant('crash' as const), node: fc.nat(1) }) },
      { weight: 2, arbitrary: fc.record({ op: fc.constant('rest' as const), ms: fc.nat(400) }) },
    );
    const nodes = [keptNode(on), keptNode(on)];
    const seen = { whole: 0, cut: 0, failed: 0, updated: 0, refused: 0 };
    try {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 20 }), async (steps) => {
          const answers: { n: number; answer: ReturnType<typeof ask> }[] = [];
          const updates: Promise<unknown>[] = [];
          const update = (to: number, signal?: AbortSignal) =>
            operator.updateWeights({ source: { case: 'diskPath', value: models[to]! } }, signal ? { signal } : {}).then(
              ({ success }) => {
                expect(success).toBe(true);
                seen.updated++;
              },
              (error: unknown) => {
                seen.refused++;
                expect([Code.Aborted, Code.Canceled]).toContain(ConnectError.from(error).code);
              },
            );
          for (const one of steps) {
            if (one.op === 'ask') answers.push({ n: one.n, answer: ask(one.n) });
            else if (one.op === 'update') updates.push(update(one.to));
            else if (one.op === 'cancelled') updates.push(update(one.to, AbortSignal.timeout(one.ms)));
            else if (one.op === 'crash') nodes[one.node]!.crash();
            else await new Promise((resolve) => setTimeout(resolve, one.ms));
            await new Promise((resolve) => setTimeout(resolve, 3));
          }
          for (const { n, answer } of answers) {
            const { messages, error } = await answer;
            if (error) {
              seen.failed++;
              expect([Code.Unavailable]).toContain(error.code);
              continue;
            }
            const of = digests.filter((digest) =>
              Array.from({ length: n }, (_, index) => index).every((index) => {
                const ids = idsOf(messages, index);
                return String(outputBy(digest, index).slice(0, ids.length)) === String(ids);
              }),
            );
            expect(of, 'the models that an answer may be of').not.toEqual([]);
            const completes = messages.filter(({ response }) => response.case === 'complete');
            expect(completes).toHaveLength(n);
            const whole = Array.from({ length: n }, (_, index) => idsOf(messages, index).length === TOKENS).every(
              Boolean,
            );
            if (whole) seen.whole++;
            else {
              seen.cut++;
              expect(
                completes.some(({ response }) => (response.value as { finishReason: string }).finishReason === 'abort'),
              ).toBe(true);
            }
          }
          await Promise.all(updates);
          const { state } = await operator.getInternalState({});
          expect(state?.request_phase).toBe('open');
          const { digest } = on.relay.model;
          const last = await ask();
          expect([last.error, idsOf(last.messages)]).toEqual([undefined, outputBy(digest, 0)]);
        }),
        { numRuns: RUNS },
      );
    } finally {
      await Promise.all(nodes.map((node) => node.end()));
      rmSync(home, { recursive: true });
    }
    expect([seen.whole, seen.updated].every(Boolean), JSON.stringify(seen)).toBe(true);
  },
);
