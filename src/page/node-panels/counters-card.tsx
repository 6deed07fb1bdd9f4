import { bytes, count, duration, percent } from '../format.ts';
import { counters, facts, rank } from '../node.ts';

/** What the node has served since it joined, and what it holds just now. */
export function CountersCard() {
  if (!counters.value) return null;
  const { genThroughput, tokensMade, requestsTaken, uptimeMs, running, waiting } = counters.value;
  const makes = facts.value === undefined || facts.value.task === 'generate';
  const { usedTokens, maxTokens, cachedTokens, cacheHitRate, gpuBytes, kvBytes, gpuShare, lora, speculation } =
    counters.value;
  return (
    <section class="card" aria-labelledby="counters-title">
      <h2 id="counters-title">Served since it joined</h2>
      <dl class="stats">
        <div>
          <dt>{makes ? 'Tokens made' : 'Tokens read'}</dt>
          <dd data-counter="tokens">{count(tokensMade)}</dd>
        </div>
        <div>
          <dt>Requests</dt>
          <dd data-counter="requests">{count(requestsTaken)}</dd>
        </div>
        <div>
          <dt>Uptime</dt>
          <dd data-counter="uptime">{uptimeMs === undefined ? '–' : duration(uptimeMs)}</dd>
        </div>
        <div>
          <dt>Speed</dt>
          <dd data-counter="speed">
            {genThroughput.toFixed(1)} <small>tokens/s</small>
          </dd>
        </div>
      </dl>
      <dl class="facts">
        {rank.value !== undefined && (
          <>
            <dt>Rank</dt>
            <dd>{rank.value}</dd>
          </>
        )}
        <dt>{makes ? 'Sequences' : 'Texts'}</dt>
        <dd>
          {running} running, {waiting} waiting
        </dd>
        {makes && (
          <>
            <dt>KV cache</dt>
            <dd>
              {count(usedTokens)} of {count(maxTokens)} tokens in use, {count(cachedTokens)} hold prefixes (
              {bytes(kvBytes)})
            </dd>
          </>
        )}
        {cacheHitRate !== undefined && (
          <>
            <dt>Prefix cache</dt>
            <dd>{percent(cacheHitRate)} of the last prompts' tokens found</dd>
          </>
        )}
        {speculation !== undefined && speculation.drafted > 0 && (
          <>
            <dt>Drafts</dt>
            <dd data-counter="drafts">
              {count(speculation.accepted)} of {count(speculation.drafted)} guessed tokens were right
            </dd>
          </>
        )}
        {lora !== undefined && (
          <>
            <dt>LoRA</dt>
            <dd data-counter="adapters">
              {lora.adapters.length} of {lora.slots} adapters loaded
            </dd>
          </>
        )}
        <dt>GPU memory</dt>
        <dd>{bytes(gpuBytes)}</dd>
        <dt>GPU time</dt>
        <dd data-counter="gpu-share">{percent(gpuShare)} of the last ten seconds</dd>
      </dl>
    </section>
  );
}
