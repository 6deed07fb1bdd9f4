// `shoal node` by itself: a browser that gives its page no GPU any more, or whose page has crashed, is followed by another.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { findBrowser } from '../src/cli/find-browser.ts';
import { freePort } from '../src/cli/net.ts';
import { OUTPUT_IDS, PROMPT_IDS } from './harness/golden.ts';
import { CRASH_FLAGS, crashGpu } from './harness/gpu-trouble.ts';
import { Command, shoalScript, systemNode, userEnvironment } from './harness/processes.ts';
import { startRelay } from './harness/relay.ts';
import { collect, greedyRequest, idsOf, schedulerClient } from './harness/scheduler.ts';
import { until, within } from './harness/wait.ts';

/** Until a browser is given up, and another's page serves. */
const AGAIN_MS = 40_000;

/** The browser, with a port to speak to it, and at its first start only without the flags by which it outlives crashes. */
async function weakBrowser(dir: string, port: number): Promise<string> {
  const program = process.env.SHOAL_BROWSER || (await findBrowser());
  if (!program) throw new Error('no browser');
  const script = join(dir, 'browser');
  writeFileSync(
    script,
    `#!/bin/sh
case "$*" in *--remote-debugging-pipe*) ;; *) exec '${program}' "$@" ;; esac
if ! mkdir '${join(dir, 'started')}' 2>/dev/null; then exec '${program}' --remote-debugging-port=${port} "$@"; fi
for arg do
  shift
  case "$arg" in ${CRASH_FLAGS.join(' | ')}) ;; *) set -- "$@" "$arg" ;; esac
done
exec '${program}' --remote-debugging-port=${port} "$@"
`,
  );
  chmodSync(script, 0o755);
  return script;
}

test.runIf(process.env.SHOAL_LONG === '1' && process.platform !== 'win32')(
  'the node command starts another browser where the adapter stays away, and where the page crashes',
  { timeout: 180_000 },
  async () => {
    const relay = await startRelay();
    const dir = mkdtempSync(join(tmpdir(), 'shoal-restart-'));
    const port = await freePort();
    const env = { ...userEnvironment(), SHOAL_BROWSER: await weakBrowser(dir, port) };
    const args = [shoalScript, 'node', '--relay', relay.webUrl, '--headless', '--software-gpu', '--tune', 'off'];
    const node = new Command(systemNode(), args, env);
    onTestFinished(async () => {
      await node.stop();
      await relay.command.stop();
      rmSync(dir, { recursive: true });
    });
    await node.line(/^ready$/, 60_000);
    const client = schedulerClient(relay.grpc);
    const ask = () => collect(client, greedyRequest(PROMPT_IDS, { maxNewTokens: 12 }));
    const nodes = async () => (await client.getLoads({})).loads.length;
    const said = (words: string) => node.stderr.filter((line) => line.includes(words)).length;
    const overCdp = async (act: (browser: Browser) => Promise<void>) => {
      const browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`);
      try {
        await act(browser);
      } finally {
        await browser.close();
      }
    };
    expect(idsOf(await ask())).toEqual(OUTPUT_IDS.slice(0, 12));

    await overCdp(async (browser) => {
      for (let crashes = 0; crashes < 2; crashes++) {
        await crashGpu(browser);
        await until('the node has gone', 10_000, async () => (await nodes()) === 0);
        if (crashes === 0) await until('it is back', 15_000, async () => (await nodes()) === 1);
      }
    });
    const crashedAt = performance.now();
    // Asked while there is no node: it waits for the next browser's.
    const answer = ask();
    await until('another browser serves', AGAIN_MS, () => said('The page serves again.') === 1);
    console.log(`node: another browser serves ${(performance.now() - crashedAt).toFixed(0)} ms after the crash`);
    expect(said('gives the page no GPU any more')).toBe(1);
    expect(idsOf(await within('the answer', 10_000, answer))).toEqual(OUTPUT_IDS.slice(0, 12));

    await overCdp(async (browser) => {
      const [page] = browser.contexts().flatMap((context) => context.pages());
      const session = await browser.contexts()[0]!.newCDPSession(page!);
      void session.send('Page.crash').catch(() => {});
      await until('the crash is told', 10_000, () => said('The page crashed: another browser') === 1);
    });
    await until('another browser serves', AGAIN_MS, () => said('The page serves again.') === 2);
    expect(idsOf(await ask())).toEqual(OUTPUT_IDS.slice(0, 12));
    expect(await node.stop('SIGTERM')).toBe(143);
  },
);
