import './playground.css';
import { useEffect } from 'preact/hooks';
import { count } from '../format.ts';
import { SignIn } from '../sign-in.tsx';
import { signOut, viewerToken } from '../viewer-access.ts';
import { Answer, asTokens } from './answer.tsx';
import { Composer } from './composer.tsx';
import { EmbedCard } from './embed-card.tsx';
import type { PlaygroundModel } from './open-tokenizer.ts';
import { type Mode, mode, modelState, newChat, openModel, run, takeBack, turns } from './playground.ts';
import { SettingsCard } from './settings-card.tsx';

/** Ask the fleet's model: a chat or a raw prompt, with every parameter, streamed from the relay. */
export function PlaygroundView() {
  useEffect(() => void openModel(), []);
  return (
    <section aria-labelledby="playground-title">
      <div class="view-head">
        <div>
          <h1 id="playground-title">Playground</h1>
          <Subtitle />
        </div>
        {viewerToken.value !== undefined && (
          <button
            type="button"
            class="small"
            onClick={() => {
              signOut();
              void openModel();
            }}
          >
            Sign out
          </button>
        )}
      </div>
      <Content />
    </section>
  );
}

function Subtitle() {
  const { value } = modelState;
  if (value.name !== 'open' && value.name !== 'vectors') return null;
  const { name, contextLength } = value.model;
  return (
    <p>
      {name}, {count(contextLength)} tokens of context
    </p>
  );
}

function Content() {
  const { value } = modelState;
  switch (value.name) {
    case 'loading':
      return (
        <p class="empty" role="status">
          Getting the tokenizer…
        </p>
      );
    case 'refused':
      return (
        <SignIn
          title="Sign in to ask the model"
          whose="A client's token, or an operator's."
          problem={value.token ? value.why : undefined}
          onSignIn={() => void openModel()}
        />
      );
    case 'failed':
      return (
        <div class="empty">
          <strong>{navigator.onLine ? 'The tokenizer did not load.' : 'This browser is offline.'}</strong>
          <span role="alert">{value.why}</span>
          <button type="button" onClick={() => void openModel()}>
            Try again
          </button>
        </div>
      );
    case 'vectors':
      return <EmbedCard model={value.model} />;
    case 'open':
      return <Opened model={value.model} />;
  }
}

function Opened({ model }: { readonly model: PlaygroundModel }) {
  return (
    <div class="columns">
      <section class="card" aria-labelledby="talk-title">
        <div class="card-head">
          <h2 id="talk-title" class="visually-hidden">
            {mode.value === 'chat' ? 'Chat' : 'Prompt'}
          </h2>
          <ModeSwitch model={model} />
          <div class="buttons">
            <button
              type="button"
              class="small"
              aria-pressed={asTokens.value}
              onClick={() => {
                asTokens.value = !asTokens.value;
              }}
            >
              Tokens
            </button>
            {mode.value === 'chat' && (
              <button type="button" class="small" disabled={turns.value.length === 0} onClick={newChat}>
                New chat
              </button>
            )}
          </div>
        </div>
        {mode.value === 'chat' ? <Chat model={model} /> : <Prompt model={model} />}
      </section>
      <SettingsCard />
    </div>
  );
}

const MODES: readonly (readonly [Mode, string])[] = [
  ['chat', 'Chat'],
  ['prompt', 'Prompt'],
];

function ModeSwitch({ model }: { readonly model: PlaygroundModel }) {
  return (
    <fieldset class="mode-switch">
      <legend class="visually-hidden">What is sent</legend>
      {MODES.map(([name, words]) => (
        <label key={name}>
          <input
            type="radio"
            name="mode"
            checked={mode.value === name}
            disabled={name === 'chat' && !model.template}
            onChange={() => {
              mode.value = name;
            }}
          />
          {words}
        </label>
      ))}
      {!model.template && <span class="hint">This model has no chat template.</span>}
    </fieldset>
  );
}

function Chat({ model }: { readonly model: PlaygroundModel }) {
  const last = turns.value.at(-1);
  return (
    <>
      {last ? (
        <ol class="chat" aria-label="Chat">
          {turns.value.map(({ text, completion }) => (
            <li key={completion.id}>
              <p class="said">
                <span class="visually-hidden">You: </span>
                {text}
              </p>
              <Answer completion={completion} tokens={model.tokens} />
            </li>
          ))}
        </ol>
      ) : (
        <p class="empty">Nothing was said yet. What you write is seen by the nodes that answer.</p>
      )}
      {last && !last.completion.running && (
        <div class="buttons">
          <button type="button" class="small plain" onClick={takeBack}>
            Take the last message back
          </button>
        </div>
      )}
      <Composer />
    </>
  );
}

function Prompt({ model }: { readonly model: PlaygroundModel }) {
  const { value } = run;
  return (
    <>
      <Composer />
      {value ? (
        <Answer key={value.completion.id} completion={value.completion} tokens={model.tokens} />
      ) : (
        <p class="empty">The model goes on from the prompt. What you write is seen by the nodes that answer.</p>
      )}
    </>
  );
}
