import { create } from '@bufbuild/protobuf';
import { Code, ConnectError, createConnectRouter } from '@connectrpc/connect';
import { type Logger, pino } from 'pino';
import { ContractError } from '../contract/contract-error.ts';
import { FleetMonitor } from '../contract/gen/fleet_monitor_pb.ts';
import { Health } from '../contract/gen/grpc/health_pb.ts';
import { ServerReflection } from '../contract/gen/grpc/reflection_v1_pb.ts';
import { ServerReflection as ServerReflectionAlpha } from '../contract/gen/grpc/reflection_v1alpha_pb.ts';
import { BuildSchema, NodeRelay } from '../contract/gen/node_relay_pb.ts';
import { Operator } from '../contract/gen/operator_pb.ts';
import { SglangScheduler } from '../contract/gen/sglang_scheduler_pb.ts';
import { AuditCounts } from './audit/audit-counts.ts';
import { Audits } from './audit/audits.ts';
import { addNodeAudits } from './audit/node-audit-gauges.ts';
import { AUDIT_TOLERANCES, VECTOR_TOLERANCES } from './audit/tolerance.ts';
import { rpcAccess } from './auth/access-table.ts';
import { directAnswers } from './direct-answers.ts';
import { Fleet } from './fleet.ts';
import { listenGrpc } from './grpc-server.ts';
import { guardHandlers } from './guard-handlers.ts';
import { healthService } from './health-service.ts';
import { JobTable } from './job-table.ts';
import { logFaults } from './log-faults.ts';
import { ServedAdapters } from './lora/served-adapters.ts';
import { Metrics } from './metrics.ts';
import { CurrentModel } from './model/current-model.ts';
import { modelPlaces } from './model/model-places.ts';
import { openModel } from './model/open-model.ts';
import { TextEncoder } from './model/text-encoder.ts';
import { FleetHistory } from './monitor/fleet-history.ts';
import { fleetMonitorService } from './monitor/fleet-monitor-service.ts';
import { RecentRequests } from './monitor/recent-requests.ts';
import { nodeRelayService } from './node-relay-service.ts';
import { operatorService } from './operator/operator-service.ts';
import { RunningSettings } from './operator/running-settings.ts';
import { WeightUpdates } from './operator/weight-updates.ts';
import { type RelayOptions, type RelaySettings, settle } from './options.ts';
import { ReceivingBudget } from './receiving-budget.ts';
import { reflectionServices } from './reflection-service.ts';
import { Router } from './router.ts';
import { schedulerService } from './scheduler-service.ts';
import type { ServedModel } from './served-model.ts';
import { openTrust, type Trust } from './trust.ts';
import { listenWeb } from './web-server.ts';

/** A relay that runs. */
export interface Relay {
  readonly grpcPort: number;
  readonly webPort: number;
  /** That it serves just now. */
  readonly model: ServedModel;
  /** Reads the token file and the certificate again; what can't be used changes nothing, and is logged. */
  reload(): void;
  /** Lets running requests go on for `closeGraceMs`, ends the others with a status, and frees both ports. */
  close(): Promise<void>;
}

/** How long connections may linger once every stream has its end. */
const LINGER_MS = 500;
/** A message of the reflection service, the one that takes a stream of them. */
const REFLECTION_BYTES = 64 * 1024;

/**
 * Starts the relay: one scheduler worker to the gateway, any number of nodes behind it. Rejects where the model can't
 * be read, a port can't be had, or an option makes no sense (RangeError).
 */
export async function startRelay(options: RelayOptions): Promise<Relay> {
  const settings = settle(options);
  const log = options.logger ?? pino({ level: 'warn' });
  const trust = openTrust(options, settings, log);
  try {
    return await startTrusted(options, settings, trust, log);
  } catch (error) {
    trust.access.close();
    throw error;
  }
}

async function startTrusted(options: RelayOptions, settings: RelaySettings, trust: Trust, log: Logger): Promise<Relay> {
  const model = await served(options);
  const places = modelPlaces(model, options.modelUrls ?? [], options.modelCdns ?? []);
  const current = new CurrentModel(model, places.bases);
  const { packageVersion } = options.build;
  const shutdown = new AbortController();
  let closing = false;

  const table = new JobTable();
  const fleet = new Fleet(
    {
      digest: model.digest,
      layers: model.layers,
      vocabSize: model.vocabSize,
      hiddenSize: model.hiddenSize,
      vectors: model.vectors,
      build: create(BuildSchema, options.build),
      leaseMs: settings.leaseMs,
      heartbeatMs: settings.heartbeatMs,
      tokenStallMs: settings.tokenStallMs,
      drainMs: settings.drainMs,
      ranks: settings.ranks,
      schedulePolicy: settings.schedulePolicy,
    },
    {
      onLost(all, { facts }) {
        const jobs = audits.withoutAudits(all);
        // At a switch of the weights no node is lost: what had begun is over, and the rest waits for the new ones.
        const switched = facts.modelDigest !== current.now.digest;
        const interrupted = switched ? 0 : jobs.filter((job) => job.interrupted).length;
        metrics.failedOver(interrupted);
        history.failedOver(interrupted);
        router.requeue(jobs);
      },
      onChange: () => {
        router.pump();
        if (router.waiting.length > 0) audits.giveWay();
        else audits.pump();
      },
      onTokens(count, ms) {
        metrics.tokens(count, ms);
        history.tokens(count, ms);
      },
      onEmbedded: (tokens) => metrics.embedded(tokens),
      onOpened: (link) => adapters.opened(link),
    },
    log,
  );
  const room = { most: settings.maxLoras, maxRank: settings.maxLoraRank };
  const adapters = new ServedAdapters(room, () => fleet.links, log);
  if (model.task !== 'generate' && (room.most > 0 || (options.loras ?? []).length > 0)) {
    throw new RangeError(`--lora and --max-loras need a model that generates text: ${model.name} does not.`);
  }
  for (const { name, path } of options.loras ?? []) await adapters.load({ name, path, id: '', pinned: true });
  const running = new RunningSettings(settings, log);
  const router = new Router(
    () => fleet.links,
    settings,
    () => running.maxQueued,
  );
  const metrics = new Metrics({ modelName: model.name, serving: () => fleet.serving, waiting: () => router.waiting });
  const history = new FleetHistory({ serving: () => fleet.serving, waiting: () => router.waiting.length });
  const recent = new RecentRequests();
  const audits = new Audits({
    share: () => running.auditShare,
    vocabSize: model.vocabSize,
    bosTokenId: model.bosTokenId,
    links: () => fleet.links,
    jobs: () => table.jobs,
    busy: () => router.waiting.length > 0 || router.phase !== 'open',
    newJobId: () => table.newId(),
    putOut: (nodeId) => fleet.expel(nodeId),
    counts: new AuditCounts(metrics.registry, (outcome) => history.audited(outcome)),
    log,
    random: Math.random,
  });
  addNodeAudits(metrics.registry, () => fleet.serving, audits);
  // While nodes load other weights requests are taken, and wait.
  const serving = () => !closing && (fleet.serving.length > 0 || router.phase === 'loading');
  const updates = new WeightUpdates({
    ...{ served: current, fleet, table, router, audits, log },
    ...{ drainMs: settings.updateDrainMs, loadMs: settings.updateLoadMs },
    cacheDir: options.cacheDir,
    closed: shutdown.signal,
  });

  const texts = new TextEncoder(current, log);
  const scheduler = schedulerService({
    current,
    texts,
    adapters,
    fleet,
    table,
    router,
    audits,
    metrics,
    history,
    recent,
    log,
    packageVersion,
    ranks: settings.ranks,
    schedulePolicy: settings.schedulePolicy,
    serving,
    closing: () => closing,
  });
  const common = {
    shutdownSignal: shutdown.signal,
    interceptors: [logFaults(log)],
    readMaxBytes: settings.readMaxBytes,
    // Node's timers hold no more: a longer one would go off at once.
    maxTimeoutMs: 2 ** 31 - 1,
    // Unknown fields are nothing to us; keeping them would cost as much as decoding them.
    binaryOptions: { readUnknownFields: false },
  };
  const guard = {
    model,
    budget: new ReceivingBudget(settings.receivingMaxBytes),
    readMaxBytes: settings.readMaxBytes,
    receiveMs: settings.receiveMs,
  };
  const reflection = reflectionServices();
  const small = { ...common, readMaxBytes: REFLECTION_BYTES };
  const grpc = createConnectRouter(common)
    .service(SglangScheduler, scheduler)
    .service(Health, healthService({ serving, changed: fleet.changed }))
    .service(ServerReflection, reflection.v1, small)
    .service(ServerReflectionAlpha, reflection.v1alpha, small);
  const web = createConnectRouter({ ...common, grpc: false })
    .service(SglangScheduler, scheduler)
    .service(NodeRelay, nodeRelayService(fleet, { ...settings, boundsHost: trust.boundsHost }))
    .service(
      FleetMonitor,
      fleetMonitorService({ fleet, table, history, recent, modelName: model.name, packageVersion }),
    )
    .service(Operator, operatorService({ current, adapters, fleet, router, running, updates }));

  const grpcServer = await listenGrpc(guardHandlers(grpc.handlers, guard), {
    host: settings.grpcHost,
    port: settings.grpcPort,
    allowFrom: trust.allowFrom,
    stallMs: settings.stallMs,
    log,
  });
  const webServer = await listenWeb({
    ...trust,
    handlers: guardHandlers(web.handlers, guard),
    direct: directAnswers(fleet, guard, log),
    rpcs: rpcAccess([SglangScheduler, NodeRelay, FleetMonitor, Operator]),
    host: settings.webHost,
    port: settings.webPort,
    stallMs: settings.stallMs,
    pageDir: options.pageDir,
    current,
    adapters,
    origins: places.origins,
    registry: metrics.registry,
    serving,
    log,
  }).catch(async (error: unknown) => {
    await grpcServer.close(0);
    throw error;
  });
  history.start();
  log.info({ grpcPort: grpcServer.port, webPort: webServer.port, model: model.name, digest: model.digest }, 'relay up');
  if (settings.auditShare > 0)
    log.info(
      { share: settings.auditShare, tolerances: model.vectors ? VECTOR_TOLERANCES : AUDIT_TOLERANCES },
      'samples are audited',
    );

  async function close(): Promise<void> {
    closing = true;
    texts.close();
    audits.close();
    history.close();
    fleet.changed.notify();
    const closed = new ContractError(Code.Unavailable, 'The relay is closing.');
    for (const job of router.waiting.slice()) job.fail(closed);
    const deadline = performance.now() + settings.closeGraceMs;
    while (!table.idle && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    for (const job of table.jobs) job.fail(closed);
    fleet.close();
    // One turn for the ends just told to be written before their streams are told to go.
    await new Promise((resolve) => setTimeout(resolve, 50));
    shutdown.abort(new ConnectError('The relay is closing.', Code.Unavailable));
    await Promise.all([grpcServer.close(LINGER_MS), webServer.close(LINGER_MS)]);
    trust.access.close();
    log.info('relay down');
  }

  let closed: Promise<void> | undefined;
  return {
    grpcPort: grpcServer.port,
    webPort: webServer.port,
    get model() {
      return current.now;
    },
    reload() {
      trust.access.reload();
      trust.certificate?.reload();
    },
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}

function served(options: RelayOptions): Promise<ServedModel> | ServedModel {
  const { model, quantisation, cacheDir, onProgress, signal } = options;
  return typeof model === 'string' ? openModel(model, { quantisation, cache: cacheDir, onProgress, signal }) : model;
}
