import { signal } from '@preact/signals';
import type { TokenBytes } from '../../checkpoint/token-bytes.ts';
import { count } from '../format.ts';
import type { Completion, Figures, ShownSample } from './completion.ts';
import { TokenList } from './token-list.tsx';
import { tokenText } from './token-text.ts';

/** Whether answers are shown token by token. */
export const asTokens = signal(false);

/** What a request made: each sample, how it ended, and what it took. */
export function Answer({ completion, tokens }: { readonly completion: Completion; readonly tokens: TokenBytes }) {
  const samples = completion.samples.value;
  const { value: problem } = completion.problem;
  return (
    <div class="answer" aria-busy={completion.running}>
      {samples.map((sample) => (
        <Sample
          key={sample.index}
          sample={sample}
          completion={completion}
          tokens={tokens}
          several={samples.length > 1}
        />
      ))}
      {problem && (
        <p class="notice" role="alert" data-tone="bad">
          {problem.rawMessage}
        </p>
      )}
      <FiguresLine completion={completion} />
    </div>
  );
}

function Sample(props: {
  readonly sample: ShownSample;
  readonly completion: Completion;
  readonly tokens: TokenBytes;
  readonly several: boolean;
}) {
  const { sample, completion, tokens, several } = props;
  const words = endWords(sample, tokens);
  return (
    <div class="sample">
      {several && <h3>Sample {sample.index + 1}</h3>}
      {asTokens.value ? (
        <TokenList sample={sample} tokens={tokens} />
      ) : (
        <p class="sample-text">
          {sample.text}
          {completion.running && sample.finish === undefined && <span class="caret" aria-hidden="true" />}
        </p>
      )}
      {words && <p class="quiet small">{words}</p>}
    </div>
  );
}

function endWords({ finish, matched }: ShownSample, tokens: TokenBytes): string | undefined {
  if (finish === undefined) return undefined;
  if (finish === 'length') return 'Ended at its greatest length.';
  if (finish === 'abort') return 'Aborted.';
  if (typeof matched === 'number') return `Ended by the token ${tokenText(tokens, matched)}.`;
  if (matched !== undefined) return `Ended by the text ${JSON.stringify(matched)}.`;
  return 'Ended where the text was complete.';
}

const STATE_WORDS = {
  waiting: 'Waiting for the first token…',
  streaming: 'Answering…',
  done: 'Done',
  stopped: 'Stopped',
  failed: 'Failed',
} as const;

function FiguresLine({ completion }: { readonly completion: Completion }) {
  const figures = completion.figures.value;
  return (
    <p class="figures quiet small">
      <span role="status">{STATE_WORDS[completion.state.value]}</span>
      {figureWords(figures).map((words) => (
        <span key={words}>{words}</span>
      ))}
    </p>
  );
}

function figureWords({
  promptTokens,
  cachedTokens,
  outputTokens,
  firstTokenMs,
  tokensPerSecond,
  ranks,
}: Figures): string[] {
  const words: string[] = [];
  if (promptTokens !== undefined) {
    words.push(`prompt ${count(promptTokens)} tokens${cachedTokens ? `, ${count(cachedTokens)} from the cache` : ''}`);
  }
  if (outputTokens > 0) words.push(`${count(outputTokens)} made`);
  if (firstTokenMs !== undefined) words.push(`first after ${(firstTokenMs / 1000).toFixed(2)} s`);
  if (tokensPerSecond !== undefined) words.push(`${tokensPerSecond.toFixed(1)} tokens/s`);
  if (ranks.length > 0) words.push(`answered by node ${ranks.join(', then ')}`);
  return words;
}
