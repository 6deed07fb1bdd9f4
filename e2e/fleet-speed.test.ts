// What an open Fleet view costs the node of the same browser: decode with it open and without, round by round.
import { expect, test } from 'vitest';
import { TestBrowser } from './harness/browser.ts';
import { PROMPT_IDS } from './harness/golden.ts';
import { startRelay } from './harness/relay.ts';
import { collect, greedyRequest, schedulerClient } from './harness/scheduler.ts';

const ROUNDS = 12;
const ROUND_MS = 2_000;
const TOKENS = 400;
const LEAST = 0.97;

const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!;

test.skipIf(process.env.SHOAL_LONG !== '1')(
  'decode with the Fleet view open has 97 % of its speed at least',
  async () => {
    const relay = await startRelay();
    const browser = await TestBrowser.launch();
    try {
      await browser.serve(relay.webUrl);
      const client = schedulerClient(relay.grpc);
      const view = await browser.open('about:blank');
      const speed = async () => {
        let [tokens, ms] = [0, 0];
        for (const from = performance.now(); performance.now() - from < ROUND_MS; ) {
          const request = greedyRequest(PROMPT_IDS, { maxNewTokens: TOKENS, ignoreEos: true });
          const { times } = await collect(client, request);
          tokens += TOKENS - 1;
          ms += times.at(-1)! - times[0]!;
        }
        return (1_000 * tokens) / ms;
      };
      const show = async (open: boolean) => {
        await view.goto(open ? `${relay.webUrl}/#fleet` : 'about:blank');
        if (open) await view.locator('.chart canvas').nth(8).waitFor({ timeout: 20_000 });
      };
      await speed();
      const found: Record<'open' | 'closed', number[]> = { open: [], closed: [] };
      for (let round = 0; round < ROUNDS; round++) {
        // Each goes first as often as the other.
        for (const name of round % 2 === 0 ? (['open', 'closed'] as const) : (['closed', 'open'] as const)) {
          await show(name === 'open');
          found[name].push(await speed());
        }
      }
      const kept = median(found.open) / median(found.closed);
      const told = ({ open, closed }: typeof found) => [open, closed].map((all) => all.map(Math.round).join(' '));
      console.log(`tokens a second with the Fleet view open and closed: ${told(found).join(' | ')}; kept: ${kept}`);
      expect(kept).toBeGreaterThanOrEqual(LEAST);
    } finally {
      await browser.close();
      await relay.command.stop();
    }
  },
  300_000,
);
