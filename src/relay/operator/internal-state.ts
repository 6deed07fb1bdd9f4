import type { JsonObject } from '@bufbuild/protobuf';
import { invalid } from '../../contract/contract-error.ts';
import type { ServedAdapters } from '../lora/served-adapters.ts';
import type { CurrentModel } from '../model/current-model.ts';
import type { NodeLink } from '../node-link.ts';
import type { Router } from '../router.ts';
import { serverArgsOf } from '../server-info.ts';
import type { RunningSettings } from './running-settings.ts';

const GIB = 1024 ** 3;

export interface StateParts {
  readonly current: CurrentModel;
  readonly adapters: Pick<ServedAdapters, 'all'>;
  readonly fleet: {
    readonly links: readonly NodeLink[];
    readonly serving: readonly NodeLink[];
    readonly paused: boolean;
  };
  readonly router: Pick<Router, 'waiting' | 'phase'>;
  readonly running: RunningSettings;
}

/**
 * What SGLang's scheduler tells of itself, of the relay and its fleet: its server arguments and settings; `last_gen_throughput`,
 * `memory_usage` and `effective_max_running_requests_per_dp` over the nodes that serve, and counts. `keys` empty: all. Throws
 * ContractError for one that there isn't.
 */
export function internalState(parts: StateParts, keys: readonly string[]): JsonObject {
  const { current, adapters, fleet, router, running } = parts;
  const { serving } = fleet;
  const settings = running.state;
  const sum = (value: (link: NodeLink) => number) => serving.reduce((total, link) => total + value(link), 0);
  const state: JsonObject = {
    ...settings,
    ...serverArgsOf(current.now, serving, {
      ranks: ranksOf(settings),
      schedulePolicy: String(settings.schedule_policy),
    }),
    last_gen_throughput: sum(({ load }) => load?.genThroughput ?? 0),
    memory_usage: {
      weight: sum(({ load }) => Number(load?.weightBytes ?? 0n)) / GIB,
      kvcache: sum(({ load }) => Number(load?.kvBytes ?? 0n)) / GIB,
      graph: 0,
      token_capacity: sum(({ facts }) => facts.poolTokens),
    },
    effective_max_running_requests_per_dp: Math.max(0, ...serving.map(({ facts }) => facts.maxRunning)),
    num_running_reqs: sum((link) => link.runningSamples),
    num_waiting_reqs: router.waiting.reduce((total, job) => total + job.unfinished.length, 0),
    // open; or held before, and loading after the weights that nodes serve are others.
    request_phase: router.phase,
    nodes: fleet.links.length,
    nodes_serving: serving.length,
    is_paused: fleet.paused,
    loaded_lora_ids: adapters.all.map(({ id }) => id),
  };
  if (keys.length === 0) return state;
  const unknown = keys.find((key) => !Object.hasOwn(state, key));
  if (unknown !== undefined) throw invalid('state_keys', `must hold only ${Object.keys(state).sort().join(', ')}.`);
  return Object.fromEntries(keys.map((key) => [key, state[key]!]));
}

function ranksOf({ ranks }: JsonObject): number | undefined {
  return typeof ranks === 'number' ? ranks : undefined;
}
