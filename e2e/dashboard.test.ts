// Debian's Prometheus, with the settings of deploy/, scrapes a relay whose node is a page in a real browser, and a
// gateway: each query of the dashboard gives a series.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort } from '../src/cli/net.ts';
import { packageRoot } from '../src/cli/paths.ts';
import { skipGateway } from './harness/gateway.ts';
import { PROMPT_IDS } from './harness/golden.ts';
import { postJson } from './harness/openai.ts';
import { Command } from './harness/processes.ts';
import { collect, greedyRequest } from './harness/scheduler.ts';
import { openServingGateway } from './harness/serving.ts';
import { until } from './harness/wait.ts';

const found = spawnSync('prometheus', ['--version']).status === 0 && spawnSync('promtool', ['--version']).status === 0;
const skip = process.env.SHOAL_LONG !== '1' ? 'long tier' : found ? skipGateway : 'no prometheus is installed';

/** [panel, query], with Grafana's variables as they are chosen at first. */
function queries(): [string, string][] {
  const { panels } = JSON.parse(readFileSync(join(packageRoot, 'deploy/grafana-dashboard.json'), 'utf8')) as {
    panels: { title: string; targets: { expr: string }[] }[];
  };
  const filled = (expr: string) => expr.replaceAll('$__rate_interval', '20s').replaceAll(/\$(model|relay)\b/g, '.*');
  return panels.flatMap(({ title, targets }) => targets.map(({ expr }): [string, string] => [title, filled(expr)]));
}

test.skipIf(skip !== undefined)(
  `every query of the dashboard gives a series${skip ? ` (${skip})` : ''}`,
  async () => {
    const serving = await openServingGateway(2);
    onTestFinished(() => serving.close());
    const folder = mkdtempSync(join(tmpdir(), 'shoal-prometheus-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const shipped = readFileSync(join(packageRoot, 'deploy/prometheus.yml'), 'utf8');
    const config = shipped
      .replace('scrape_interval: 5s', 'scrape_interval: 1s')
      .replace('relay:8080', new URL(serving.relay.webUrl).host)
      .replace('/run/secrets/operator', join(folder, 'operator'))
      .replace('gateway:29000', new URL(serving.gateway.metricsUrl).host);
    writeFileSync(join(folder, 'operator'), 'an-operators-token');
    writeFileSync(join(folder, 'prometheus.yml'), config);
    const checked = spawnSync('promtool', ['check', 'config', join(folder, 'prometheus.yml')], { encoding: 'utf8' });
    expect(checked.stdout + checked.stderr).toContain('SUCCESS');

    const port = await freePort();
    const prometheus = new Command('prometheus', [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ]);
    onTestFinished(async () => {
      await prometheus.stop();
    });
    /** Finite values of a query's series now. */
    const ask = async (query: string): Promise<number[]> => {
      const url = `http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(query)}`;
      const answer = (await (await fetch(url)).json()) as {
        error?: string;
        data?: { result: { value: [number, string] }[] };
      };
      if (!answer.data) throw new Error(`${query}: ${answer.error}`);
      return answer.data.result.map(({ value }) => Number(value[1])).filter(Number.isFinite);
    };
    await until(
      'Prometheus scrapes relay and gateway',
      30_000,
      async () => (await ask('up == 1').catch(() => [])).length === 2,
    );

    // Some of all that is counted.
    const load = async () => {
      await postJson(`${serving.gateway.url}/v1/completions`, { model: 'stories260K', prompt: 'Once', max_tokens: 5 });
      await collect(serving.client, greedyRequest(PROMPT_IDS, { maxNewTokens: 40 }));
      await collect(
        serving.client,
        greedyRequest(PROMPT_IDS, { maxNewTokens: 5, constraint: { case: 'regex', value: '[a-z ]+' } }),
      );
      await expect(collect(serving.client, greedyRequest(PROMPT_IDS, { topP: 2 }))).rejects.toThrow();
    };
    let missing = queries();
    const last = performance.now() + 60_000;
    while (missing.length > 0 && performance.now() < last) {
      await load();
      const left: [string, string][] = [];
      for (const query of missing) if ((await ask(query[1])).length === 0) left.push(query);
      missing = left;
    }
    expect(missing).toEqual([]);
  },
  150_000,
);
