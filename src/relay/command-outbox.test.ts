import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CommandOutbox } from './command-outbox.ts';
import { Lie } from './lie.ts';

/** What happens to a session: commands, deliveries, acknowledgements, and connections that drop. */
const steps = fc.array(fc.constantFrom('push', 'deliver', 'acknowledge', 'drop'), { maxLength: 200 });

test('over dropped connections a node sees every command once and in order', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 5 }), (script, most) => {
      const outbox = new CommandOutbox();
      const seen: bigint[] = [];
      let pushed = 0n;
      // Where the relay stands in sending on this connection; it may be ahead of what the node got.
      let cursor = 0n;
      const deliver = () => {
        const next = outbox.after(cursor, most);
        expect(next.length).toBeLessThanOrEqual(most);
        cursor = next.at(-1)?.seq ?? cursor;
        seen.push(...next.map(({ seq }) => seq));
        return next.length > 0;
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
          cursor = outbox.after(cursor, most).at(-1)?.seq ?? cursor;
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
