import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import type { Logger } from 'pino';
import { ContractError } from '../contract/contract-error.ts';
import {
  AbortResponseSchema,
  type EmbedRequest,
  type EmbedResponse,
  type GenerateRequest,
  type GenerateResponse,
  HealthCheckResponseSchema,
  type SglangScheduler,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../contract/normalise-request.ts';
import type { ModelLimits, NormalisedRequest } from '../contract/normalised-request.ts';
import type { Audits } from './audit/audits.ts';
import { principalOf } from './auth/principal.ts';
import { answerEmbed, normaliseEmbed } from './embed-call.ts';
import type { Fleet } from './fleet.ts';
import { flushCache } from './flush-cache.ts';
import { frameSinkKey } from './frame-sink.ts';
import { errorOf, streamJob } from './generate-stream.ts';
import type { Job } from './job.ts';
import type { JobTable } from './job-table.ts';
import { KvEvents } from './kv-events.ts';
import { loadsOf } from './loads.ts';
import { loraRpcs } from './lora/lora-rpcs.ts';
import type { ServedAdapters } from './lora/served-adapters.ts';
import type { Metrics } from './metrics.ts';
import type { CurrentModel } from './model/current-model.ts';
import type { TextEncoder } from './model/text-encoder.ts';
import type { FleetHistory } from './monitor/fleet-history.ts';
import type { RecentRequests } from './monitor/recent-requests.ts';
import type { SchedulePolicyName } from './options.ts';
import { Profiles } from './profile.ts';
import { pushJob } from './push-job.ts';
import { logEnd, type RequestIds, requestIds } from './request-log.ts';
import type { Router } from './router.ts';
import type { ServedModel } from './served-model.ts';
import { modelInfoOf, serverInfoOf } from './server-info.ts';
import { shownId } from './shown-id.ts';
import { toConnectError } from './to-connect-error.ts';
import { readTrace } from './trace-context.ts';

export interface SchedulerParts {
  readonly current: CurrentModel;
  readonly texts: TextEncoder;
  readonly adapters: ServedAdapters;
  readonly fleet: Fleet;
  readonly table: JobTable;
  readonly router: Router;
  readonly audits: Audits;
  readonly metrics: Metrics;
  readonly history: FleetHistory;
  readonly recent: RecentRequests;
  readonly log: Logger;
  readonly packageVersion: string;
  readonly ranks: number | undefined;
  readonly schedulePolicy: SchedulePolicyName;
  /** Whether requests are taken, and nodes are there or on their way. */
  readonly serving: () => boolean;
  /** True once the relay closes. */
  readonly closing: () => boolean;
}

/** What the gateway talks to. Prompts stay out of logs and metrics; counts go in. */
export function schedulerService(parts: SchedulerParts): ServiceImpl<typeof SglangScheduler> {
  const { current, texts, fleet, table, router, audits, metrics, history, recent, log } = parts;
  const profiles = new Profiles(fleet, log);
  const kvEvents = new KvEvents(fleet.prefixes);
  const startedAtMs = Date.now();
  const started = performance.now();
  let lastRequestAtMs: number | undefined;
  /** Whose session began a job. */
  const owners = new WeakMap<Job, string>();

  /** Gives a checked request to the router. Throws ContractError. */
  function admit(request: NormalisedRequest, owner: string, traceparent: string | undefined): Job {
    const job = table.add(request);
    job.traceparent = traceparent;
    owners.set(job, owner);
    job.onEnd = () => {
      metrics.jobEnded(job);
      history.jobEnded(job);
      recent.add(job);
      audits.jobEnded(job);
      table.ended.notify();
    };
    job.onFirstToken = () => {
      metrics.firstToken(job);
      history.firstToken(job);
    };
    try {
      router.submit(job);
      if (router.waiting.length > 0) audits.giveWay();
    } catch (error) {
      table.remove(job);
      throw error;
    }
    return job;
  }

  /** Takes a request on. `end` is to be called once its answer is over, in whatever way. Rejects with ConnectError. */
  async function begin(
    requestId: string,
    context: HandlerContext,
    normalise: () => NormalisedRequest | Promise<NormalisedRequest>,
  ): Promise<{ readonly job: Job; readonly ids: RequestIds; readonly end: () => void }> {
    lastRequestAtMs = Date.now();
    if (parts.closing()) throw new ConnectError('The relay is closing.', Code.Unavailable);
    const trace = readTrace(context.requestHeader);
    const ids = requestIds(requestId, trace);
    let job: Job;
    try {
      job = admit(await normalise(), principalOf(context.values).key, trace?.traceparent);
    } catch (error) {
      throw refused(error, ids);
    }
    // The stream may be stuck in a write when its client goes: the signal is told whatever it waits for.
    const leave = () => {
      job.leave();
      table.remove(job);
    };
    if (context.signal.aborted) leave();
    context.signal.addEventListener('abort', leave, { once: true });
    const end = () => {
      context.signal.removeEventListener('abort', leave);
      // Who answered, for the page's playground.
      const ranks = job.stays.map(({ rank }) => rank);
      if (ranks.length > 0) context.responseTrailer.set('x-shoal-ranks', ranks.join(','));
      logEnd(log, ids, job);
      leave();
    };
    return { job, ids, end };
  }

  async function* generate(request: GenerateRequest, context: HandlerContext): AsyncGenerator<GenerateResponse> {
    const { job, ids, end } = await begin(request.requestId, context, () => {
      if (current.now.task !== 'generate') throw unserves('Generate', current.now);
      return normaliseRequest(request, limitsOf(parts));
    });
    try {
      const { timestamp } = request;
      if (timestamp) metrics.transit(Date.now() / 1000 - Number(timestamp.seconds) - timestamp.nanos / 1e9);
      const packed = !/json/i.test(context.requestHeader.get('content-type') ?? '');
      const form = { packed, lastLayer: (current.now.layers ?? 0) - 1 };
      const sink = context.values.get(frameSinkKey);
      if (sink) await pushJob(job, form, sink);
      else yield* streamJob(job, form);
      // A deadline of the client's own, or the relay's end: an OK without a complete would be a silent loss.
      if (job.outcome === 'left' && context.signal.aborted) {
        const why = toConnectError(context.signal.reason);
        if (job.messages > 0) yield errorOf(job, new ContractError(why.code, why.rawMessage));
        throw why;
      }
    } catch (error) {
      if (error instanceof ConnectError) throw error;
      log.error({ err: error, ...ids, job: String(job.id) }, 'request failed by a fault of the relay');
      const fault = new ContractError(Code.Internal, 'internal error');
      if (job.messages > 0) yield errorOf(job, fault);
      throw toConnectError(fault);
    } finally {
      end();
    }
  }

  async function embed(request: EmbedRequest, context: HandlerContext): Promise<EmbedResponse> {
    const { vectors } = current.now;
    const { job, end } = await begin(request.requestId, context, () => {
      if (!vectors) throw unserves('Embed', current.now);
      const limits = { ...limitsOf(parts), ...vectors, classifies: vectors.classes !== undefined };
      return normaliseEmbed(request, limits, (text, pair) => texts.encode(text, pair, context.signal));
    });
    try {
      return await answerEmbed(job, vectors!, context);
    } catch (error) {
      throw toConnectError(error);
    } finally {
      end();
    }
  }

  /** Counts and logs a request that wasn't taken. */
  function refused(error: unknown, ids: RequestIds): ConnectError {
    const refusal = toConnectError(error);
    metrics.refused(refusal.code);
    log.info({ ...ids, outcome: Code[refusal.code] }, 'request refused');
    return refusal;
  }

  return {
    generate,
    embed,

    abort({ requestId }, context) {
      const { role, key } = principalOf(context.values);
      const found = table.find(requestId);
      // To a client, what another began is as if it weren't there.
      const job = found && role === 'client' && owners.get(found) !== key ? undefined : found;
      const known = job !== undefined && job.outcome === undefined;
      job?.abort();
      return create(AbortResponseSchema, {
        success: known,
        message: known ? '' : `Request ${shownId(requestId)} not found`,
      });
    },

    healthCheck() {
      const healthy = parts.serving();
      const why = parts.closing()
        ? 'The relay is closing.'
        : 'No node is serving: open the page of the relay in a browser.';
      const loading = router.phase === 'loading' ? ', others load other weights' : '';
      const serving = `${fleet.serving.length} serving${loading}`;
      return create(HealthCheckResponseSchema, { healthy, message: healthy ? serving : why });
    },

    getModelInfo: () => modelInfoOf(current.now),

    getServerInfo: () =>
      serverInfoOf(current.now, fleet.serving, {
        packageVersion: parts.packageVersion,
        startedAtMs,
        uptimeSeconds: (performance.now() - started) / 1000,
        activeRequests: [...table.jobs].filter((job) => job.outcome === undefined).length,
        paused: fleet.paused,
        loading: router.phase === 'loading',
        lastRequestAtMs,
        ranks: parts.ranks,
        schedulePolicy: parts.schedulePolicy,
      }),

    getLoads(request) {
      try {
        return loadsOf(request, fleet.serving, router.waiting, `shoal ${parts.packageVersion}`);
      } catch (error) {
        throw toConnectError(error);
      }
    },

    async flushCache({ timeoutS }, { signal }) {
      try {
        const answer = await flushCache(parts, timeoutS, signal);
        log.info({ success: answer.success, message: answer.message }, 'prefix caches flushed');
        return answer;
      } catch (error) {
        throw toConnectError(error);
      }
    },

    async *subscribeKvEvents({ startSequenceNumber }, { signal }) {
      try {
        yield* kvEvents.subscribe(startSequenceNumber, signal);
      } catch (error) {
        throw toConnectError(error);
      }
    },

    getTokenizer: () => current.now.tokenizer.chunks(),

    startProfile(request) {
      try {
        return profiles.start(request);
      } catch (error) {
        throw toConnectError(error);
      }
    },

    stopProfile: (_request, { signal }) => profiles.stop(signal),

    ...loraRpcs(parts.adapters),
  };
}

function limitsOf({ current, adapters, fleet, ranks, schedulePolicy }: SchedulerParts): ModelLimits {
  const model = current.now;
  const poolTokens = fleet.largestPool;
  return {
    vocabSize: model.vocabSize,
    contextLength: model.contextLength,
    eosTokenIds: model.eosTokenIds,
    hiddenSize: model.hiddenSize,
    ...(adapters.room.most > 0 ? { adapterId: (named: string) => adapters.find(named)?.id } : {}),
    servesPriority: schedulePolicy === 'priority',
    ...(poolTokens === undefined ? {} : { poolTokens }),
    ...(ranks === undefined ? {} : { ranks }),
  };
}

const TASKS = { generate: 'generates text', embed: 'makes embeddings', classify: 'classifies texts' } as const;

function unserves(rpc: string, { name, task }: ServedModel): ConnectError {
  return new ConnectError(`${rpc} is not served: the model ${name} ${TASKS[task]}.`, Code.Unimplemented);
}
