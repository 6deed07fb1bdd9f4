import { draft, fault, mode, running, send, stop } from './playground.ts';

/** What is typed, and the one button: to send it, or to stop what is being answered. */
export function Composer() {
  const chat = mode.value === 'chat';
  const { value: problem } = fault;
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label class="field">
        {chat ? 'Message' : 'Prompt'}
        <textarea
          rows={chat ? 3 : 6}
          value={draft.value}
          aria-describedby="composer-hint"
          onInput={(event) => {
            draft.value = event.currentTarget.value;
          }}
          onKeyDown={(event) => {
            const sends = chat
              ? event.key === 'Enter' && !event.shiftKey
              : event.key === 'Enter' && (event.ctrlKey || event.metaKey);
            if (!sends || event.isComposing) return;
            event.preventDefault();
            send();
          }}
        />
      </label>
      {problem && (
        <p class="notice" role="alert" data-tone="bad">
          {problem.field ? `${problem.field}: ` : ''}
          {problem.message}
        </p>
      )}
      <div class="composer-foot">
        <p id="composer-hint" class="hint">
          {chat ? 'Enter sends, Shift and Enter begin a line.' : 'Ctrl and Enter run it.'}
        </p>
        {/* Elements of their own: one that became the other while a click on it is handled would send at once again. */}
        {running.value ? (
          <button key="stop" type="button" onClick={stop}>
            Stop
          </button>
        ) : (
          <button key="send" type="submit" class="primary">
            {chat ? 'Send' : 'Run'}
          </button>
        )}
      </div>
    </form>
  );
}
