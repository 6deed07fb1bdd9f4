import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CommandOutbox } from './command-outbox.ts';
import { Lie } from './lie.ts';

/** What happens to a session: commands, deliveries, acknowledgements, and connections that drop. */
const steps = fc.array(fc.constantFrom('push', 'deliver', 'acknowledge', 'drop'), { maxLength: 200 });

test('over dropped connections a node sees every command once and in order', () => {
  fc.assert(
    fc.property(steps, (script) => {
      const outbox = new CommandOutbox();
      const seen: bigint[] = [];
      let pushed = 0n;
      // Where the relay stands in sending on this connection; it may be ahead of what the node got.
      let cursor = 0n;
      const deliver = () => {
        const next = outbox.after(cursor);
        if (!next) return false;
        cursor = next.seq;
        seen.push(next.seq);
        return true;
      };
      for (const step of script) {
        if (step === 'push') {
          outbox.push({ case: 'abort', value: { jobId: ++pushed } });
        } else if (step === 'deliver') {
          deliver();
        } else if (step === 'acknowledge') {
          outbox.acknowledge(seen.at(-1) ?? 0n);
        } else {
          // Sent, and lost with the connection; then the node resumes from what it has seen.
          cursor = outbox.after(cursor)?.seq ?? cursor;
          const lastSeen = seen.at(-1) ?? 0n;
          outbox.acknowledge(lastSeen);
          cursor = lastSeen;
        }
      }
      while (deliver());
      expect(seen).toEqual(Array.from({ length: Number(pushed) }, (_, at) => BigInt(at + 1)));
      outbox.acknowledge(pushed);
      expect(outbox.unacknowledged).toBe(0);
      expect(() => outbox.acknowledge(pushed + 1n)).toThrow(Lie);
    }),
  );
});
