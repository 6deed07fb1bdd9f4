import type { Page } from 'playwright-core';
import type { Generation } from '../../src/cli/gateway-venv.ts';
import type { SchedulerClient } from '../../src/cli/scheduler-client.ts';
import { TestBrowser } from './browser.ts';
import { type TestGateway, testGateway } from './gateway.ts';
import { startRelay, type TestRelay } from './relay.ts';
import { schedulerClient } from './scheduler.ts';
import { until } from './wait.ts';

/** A relay, and a page in a real browser that serves for it. */
export interface Serving {
  readonly relay: TestRelay;
  readonly browser: TestBrowser;
  readonly page: Page;
  readonly client: SchedulerClient;
  close(): Promise<void>;
}

export async function openServing(
  relayArgs: readonly string[] = [],
  browserOptions: Parameters<typeof TestBrowser.launch>[0] = {},
): Promise<Serving> {
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const each of closers.splice(0).reverse()) await each();
  };
  try {
    const relay = await startRelay(relayArgs);
    closers.push(() => relay.command.stop());
    const browser = await TestBrowser.launch(browserOptions);
    closers.push(() => browser.close());
    const page = await browser.serve(relay.webUrl);
    return { relay, browser, page, client: schedulerClient(relay.grpc), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The same behind a gateway. */
export interface ServingGateway extends Serving {
  readonly gateway: TestGateway;
}

export async function openServingGateway(generation: Generation): Promise<ServingGateway> {
  const serving = await openServing();
  try {
    const gateway = await testGateway(generation, serving.relay.grpc);
    await until('the gateway lists the model', 10_000, async () => {
      const list = (await (await fetch(`${gateway.url}/v1/models`)).json()) as { data: { id: string }[] };
      return list.data.some(({ id }) => id === 'stories260K');
    });
    const close = async () => {
      await gateway.close();
      await serving.close();
    };
    return { ...serving, gateway, close };
  } catch (error) {
    await serving.close();
    throw error;
  }
}
