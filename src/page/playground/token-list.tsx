import { useRef, useState } from 'preact/hooks';
import type { TokenBytes } from '../../checkpoint/token-bytes.ts';
import type { ShownSample, ShownToken } from './completion.ts';
import { likelihoodStep, probability, tokenText } from './token-text.ts';

const STEPS = ['90 % and more', '50 %', '20 %', '5 %', 'less'];

/** A sample token by token, coloured by how likely each was; one that is chosen tells its alternatives. Arrows move. */
export function TokenList({ sample, tokens }: { readonly sample: ShownSample; readonly tokens: TokenBytes }) {
  const [chosen, choose] = useState<number | undefined>(undefined);
  const list = useRef<HTMLOListElement>(null);
  const shown = chosen === undefined ? undefined : sample.tokens[chosen];
  const move = (to: number) => {
    const place = Math.max(0, Math.min(sample.tokens.length - 1, to));
    choose(place);
    list.current?.querySelectorAll('button')[place]?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { length } = sample.tokens;
    const places: Readonly<Record<string, number>> = {
      ArrowLeft: (chosen ?? 0) - 1,
      ArrowRight: (chosen ?? -1) + 1,
      Home: 0,
      End: length - 1,
    };
    const place = places[event.key];
    if (place === undefined) return;
    event.preventDefault();
    move(place);
  };
  if (sample.tokens.length === 0) return <p class="quiet small">No token yet.</p>;
  return (
    <div class="token-view">
      <ol class="token-list" ref={list} aria-label="Tokens">
        {sample.tokens.map((token, place) => (
          <li key={place}>
            <button
              type="button"
              class="token"
              data-step={likelihoodStep(token.logprob)}
              tabIndex={place === (chosen ?? 0) ? 0 : -1}
              aria-pressed={place === chosen}
              aria-label={labelOf(tokens, token)}
              onClick={() => choose(place === chosen ? undefined : place)}
              onKeyDown={onKeyDown}
            >
              {tokenText(tokens, token.id)}
            </button>
          </li>
        ))}
      </ol>
      {sample.tokens.some(({ logprob }) => logprob !== undefined) && <Legend />}
      {shown && <Alternatives token={shown} tokens={tokens} />}
    </div>
  );
}

function labelOf(tokens: TokenBytes, { id, logprob }: ShownToken): string {
  const text = tokenText(tokens, id);
  return logprob === undefined ? text : `${text}, ${probability(logprob)}`;
}

function Legend() {
  return (
    <ul class="token-legend" aria-label="How likely a token was">
      {STEPS.map((words, step) => (
        <li key={words}>
          <span class="token-swatch" data-step={step} aria-hidden="true" />
          {words}
        </li>
      ))}
    </ul>
  );
}

function Alternatives({ token, tokens }: { readonly token: ShownToken; readonly tokens: TokenBytes }) {
  const { id, logprob, alternatives } = token;
  const others = alternatives.some((one) => one.id === id) || logprob === undefined;
  const rows = others ? alternatives : [...alternatives, { id, logprob }];
  return (
    <table class="token-table">
      <caption>
        <code>{tokenText(tokens, id)}</code>, token {id}
        {logprob === undefined && ': no probabilities were asked for'}
      </caption>
      {rows.length > 0 && (
        <thead>
          <tr>
            <th scope="col">Token</th>
            <th scope="col" class="number">
              Id
            </th>
            <th scope="col" class="number">
              Probability
            </th>
            <th scope="col" class="number">
              Logprob
            </th>
          </tr>
        </thead>
      )}
      <tbody>
        {rows.map((row) => (
          <tr key={row.id} data-drawn={row.id === id || undefined}>
            <th scope="row">
              <code>{tokenText(tokens, row.id)}</code>
              {row.id === id && <span class="quiet"> taken</span>}
            </th>
            <td class="number">{row.id}</td>
            <td class="number">{probability(row.logprob)}</td>
            <td class="number">{row.logprob.toFixed(3)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
