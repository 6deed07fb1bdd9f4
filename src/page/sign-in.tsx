import { useState } from 'preact/hooks';
import { signIn } from './viewer-access.ts';

/** As the relay takes tokens (docs/security.md). */
const TOKEN = '[A-Za-z0-9._~+\\/\\-]{16,256}=*';

export interface SignInProps {
  readonly title: string;
  readonly whose: string;
  readonly problem?: string | undefined;
  /** The token is `viewerToken` now. */
  readonly onSignIn: () => void;
}

/** Asks for a token where the relay lets nobody in without; `problem` is why the one before did not do. */
export function SignIn({ title, whose, problem, onSignIn }: SignInProps) {
  const [token, setToken] = useState('');
  return (
    <form
      class="card sign-in"
      onSubmit={(event) => {
        event.preventDefault();
        signIn(token);
        onSignIn();
      }}
    >
      <h2>{title}</h2>
      <p class="quiet">{whose} It stays in this tab, and goes with it.</p>
      {problem && (
        <p role="alert" class="notice" data-tone="bad">
          {problem}
        </p>
      )}
      <label class="field">
        Token
        <input
          class="code"
          type="password"
          autoComplete="off"
          spellcheck={false}
          required
          pattern={TOKEN}
          title="16 to 256 letters, digits and . _ ~ + / -"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value.trim())}
        />
      </label>
      <div class="buttons">
        <button type="submit" class="primary">
          Sign in
        </button>
      </div>
    </form>
  );
}
