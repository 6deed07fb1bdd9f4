import { Code } from '@connectrpc/connect';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { BLOCK_TOKENS } from './block-hashes.ts';
import type { Job } from './job.ts';
import { utilizationOf } from './loads.ts';
import type { NodeLink } from './node-link.ts';

export interface MetricsSource {
  /** As clients know it: a label of every sample, as SGLang has it. */
  readonly modelName: string;
  /** Nodes that serve. */
  readonly serving: () => readonly NodeLink[];
  readonly waiting: () => readonly Job[];
}

const GIB = 1024 ** 3;
const LENGTHS = [1, 4, 16, 64, 256, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072];
const TOKEN_LATENCIES = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30];
const LATENCIES = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120];

/** A clock that says more is not the relay's. */
const MAX_TRANSIT_SECONDS = 3600;

/**
 * Counted values, under SGLang's names where SGLang has them. A node that told no load has no sample of it: unknown is
 * absent, not zero. Nothing here comes from a prompt.
 */
export class Metrics {
  readonly registry = new Registry();
  private readonly requests: Counter;
  private readonly constrained: Counter;
  private readonly aborted: Counter;
  private readonly refusals: Counter<'code'>;
  private readonly promptTokens: Counter;
  private readonly cachedTokens: Counter;
  private readonly generationTokens: Counter;
  private readonly vectors: Counter;
  private readonly embeddedTokens: Counter;
  private readonly failovers: Counter;
  private readonly promptLengths: Histogram;
  private readonly outputLengths: Histogram;
  private readonly queueSeconds: Histogram;
  private readonly firstTokenSeconds: Histogram;
  private readonly tokenSeconds: Histogram;
  private readonly requestSeconds: Histogram;
  private readonly transitSeconds: Histogram;

  constructor(source: MetricsSource) {
    this.registry.setDefaultLabels({ model_name: source.modelName });
    const registers = [this.registry];
    const counter = (name: string, help: string) => new Counter({ name, help, registers });
    const histogram = (name: string, help: string, buckets = LATENCIES) =>
      new Histogram({ name, help, buckets, registers });
    this.requests = counter('sglang:num_requests_total', 'Requests taken.');
    this.constrained = counter('sglang:num_so_requests_total', 'Of those: with a constraint.');
    this.aborted = counter('sglang:num_aborted_requests_total', 'Requests that ended before they were complete.');
    this.promptTokens = counter('sglang:prompt_tokens_total', 'Prompt tokens of requests taken.');
    this.cachedTokens = counter('sglang:cached_tokens_total', 'Prompt tokens found in prefix caches.');
    this.generationTokens = counter('sglang:generation_tokens_total', 'Output tokens that nodes made.');
    this.vectors = counter('shoal:vectors_total', 'Embeddings, and results of classifiers, that nodes made.');
    this.embeddedTokens = counter('shoal:embedded_tokens_total', 'Tokens of the texts that these were made of.');
    this.failovers = counter('shoal:failovers_total', 'Requests whose node was lost while they ran.');
    this.promptLengths = histogram('sglang:prompt_tokens_histogram', 'Tokens of a prompt.', LENGTHS);
    this.outputLengths = histogram('sglang:generation_tokens_histogram', 'Output tokens of a request.', LENGTHS);
    this.queueSeconds = histogram('sglang:queue_time_seconds', 'From arrival until a node was given the request.');
    this.tokenSeconds = histogram(
      'sglang:inter_token_latency_seconds',
      "From one of a sample's tokens to the next, as they came to the relay; what waited for its reader counts from then.",
      TOKEN_LATENCIES,
    );
    this.firstTokenSeconds = histogram('sglang:time_to_first_token_seconds', 'From arrival to the first token.');
    this.requestSeconds = histogram('sglang:e2e_request_latency_seconds', 'From arrival to the end.');
    this.transitSeconds = histogram(
      'shoal:request_transit_seconds',
      "From a request's timestamp, by its client's clock, to its arrival; those over an hour or in the future are not counted.",
    );
    this.refusals = new Counter({
      name: 'shoal:refused_requests_total',
      help: 'Requests refused before they were taken.',
      labelNames: ['code'],
      registers,
    });
    this.addGauges(source);
    this.addProcess();
  }

  refused(code: Code): void {
    this.refusals.inc({ code: Code[code] });
  }

  /** `seconds` may be anything: two clocks took it. */
  transit(seconds: number): void {
    if (seconds >= 0 && seconds <= MAX_TRANSIT_SECONDS) this.transitSeconds.observe(seconds);
  }

  /** Of one sample; `ms` since it could make them, undefined for its first at a node. */
  tokens(count: number, ms: number | undefined): void {
    this.generationTokens.inc(count);
    if (ms === undefined) return;
    for (let at = 0; at < count; at++) this.tokenSeconds.observe(ms / count / 1000);
  }

  embedded(tokens: number): void {
    this.vectors.inc();
    this.embeddedTokens.inc(tokens);
  }

  firstToken(job: Job): void {
    this.firstTokenSeconds.observe((performance.now() - job.arrivedAt) / 1000);
  }

  failedOver(jobs: number): void {
    this.failovers.inc(jobs);
  }

  jobEnded(job: Job): void {
    this.requests.inc();
    if (job.request.constraint !== undefined) this.constrained.inc();
    this.promptTokens.inc(job.request.inputIds.length);
    this.promptLengths.observe(job.request.inputIds.length);
    if (!job.request.embedInputs) this.outputLengths.observe(job.samples.reduce((sum, { ids }) => sum + ids.length, 0));
    if (job.givenAt !== undefined) this.queueSeconds.observe((job.givenAt - job.arrivedAt) / 1000);
    this.cachedTokens.inc(job.cachedTokens ?? 0);
    this.requestSeconds.observe((performance.now() - job.arrivedAt) / 1000);
    if (!job.whole) this.aborted.inc();
  }

  /** The relay's own process, under the names that all have. */
  private addProcess(): void {
    const registers = [this.registry];
    new Gauge({
      name: 'process_resident_memory_bytes',
      help: 'Resident memory of the relay.',
      registers,
      collect() {
        this.set(process.memoryUsage.rss());
      },
    });
    new Counter({
      name: 'process_cpu_seconds_total',
      help: 'Processor time of the relay.',
      registers,
      collect() {
        const { user, system } = process.cpuUsage();
        this.reset();
        this.inc((user + system) / 1e6);
      },
    });
  }

  private addGauges({ serving, waiting }: Omit<MetricsSource, 'modelName'>): void {
    const registers = [this.registry];
    const total = (name: string, help: string, value: () => number) =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(value());
        },
      });
    const perNode = (name: string, help: string, value: (link: NodeLink) => number | undefined) =>
      new Gauge({
        name,
        help,
        labelNames: ['dp_rank'],
        registers,
        collect() {
          this.reset();
          for (const link of serving()) {
            const known = value(link);
            if (known !== undefined) this.set({ dp_rank: link.rank }, known);
          }
        },
      });
    total('shoal:nodes', 'Nodes that serve.', () => serving().length);
    total('sglang:num_queue_reqs', 'Requests that wait at the relay.', () => waiting().length);
    perNode('sglang:num_running_reqs', 'Sequences given to the node.', (link) => link.runningSamples);
    perNode(
      'sglang:num_retracted_reqs',
      'Of those: they ran, and wait since others needed their KV slots.',
      (link) => link.retractedSamples,
    );
    perNode('sglang:num_used_tokens', 'KV slots neither free nor evictable.', ({ load }) => load?.usedTokens);
    perNode('sglang:token_usage', 'Used part of the KV slots.', ({ load, facts }) =>
      load?.usedTokens === undefined ? undefined : load.usedTokens / facts.poolTokens,
    );
    perNode('sglang:utilization', 'How full the node is: of sequences or of KV slots.', (link) =>
      link.load?.usedTokens === undefined ? undefined : utilizationOf(link),
    );
    perNode('sglang:weight_memory_usage_gb', 'GiB of weights on the GPU.', ({ load }) => gibOf(load?.weightBytes));
    perNode('sglang:kv_cache_memory_usage_gb', 'GiB of the KV pool.', ({ load }) => gibOf(load?.kvBytes));
    perNode(
      'sglang:gen_throughput',
      'Output tokens per second; where vectors are made, tokens read.',
      ({ load }) => load?.genThroughput,
    );
    perNode('sglang:cache_hit_rate', 'Part of prompts found in the prefix cache.', ({ load }) => load?.cacheHitRate);
    perNode('sglang:max_total_num_tokens', 'KV slots, in tokens.', ({ facts }) => facts.poolTokens);
    perNode(
      'shoal:prefix_cache_tokens',
      'KV slots that hold a prefix, in use or not.',
      ({ load }) => load?.cachedTokens,
    );
    perNode(
      'shoal:waiting_uncached_tokens',
      'Tokens of sequences that wait inside the node which no cached prefix covers.',
      ({ load }) => load?.waitingUncachedTokens,
    );
    perNode(
      'shoal:sample_tokens_per_second',
      "One sample's output tokens per second of the time that it could run, as they came to the relay.",
      ({ speed }) => speed.tokensPerSecond,
    );
    perNode('shoal:recent_losses', 'Work that the node lost or failed of late; each fades.', ({ losses }) => losses);
    perNode(
      'shoal:told_cached_tokens',
      'Tokens of whole blocks in its prefix cache, as it told block by block.',
      ({ prefixes }) => prefixes.blocks * BLOCK_TOKENS,
    );
    perNode('shoal:gpu_bytes', 'Bytes of all live GPU buffers.', ({ load }) => numberOf(load?.gpuBytes));
    perNode('shoal:heap_bytes', 'Bytes of the heap of the page, where it tells them.', ({ load }) =>
      numberOf(load?.heapBytes),
    );
    perNode('shoal:hidden', '1 where the page is in a hidden tab.', ({ load }) => numberOf(load?.hidden));
  }
}

function gibOf(bytes: bigint | undefined): number | undefined {
  return bytes === undefined ? undefined : Number(bytes) / GIB;
}

/** Undefined stays so: unknown is no number. */
function numberOf(value: bigint | boolean | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}
