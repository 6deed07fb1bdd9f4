import { background, setBackground } from '../background/background.ts';
import { sound } from '../background/quiet-sound.ts';
import { awake, wakeLockOffered } from '../background/wake-lock.ts';
import { Check } from './check.tsx';

/** What becomes of the node while nobody looks at its tab. */
export function BackgroundCard() {
  const { keepAwake, sound: plays } = background.value;
  return (
    <section class="card" aria-labelledby="background-title">
      <h2 id="background-title">In the background</h2>
      <p class="small quiet">
        A hidden tab serves on: no timer paces its work, and a lock tells the browser not to freeze it. The browser may
        still give it less, and a computer that sleeps serves nothing; the node comes back by itself.
      </p>
      <fieldset class="fields">
        <legend class="visually-hidden">In the background</legend>
        <Check
          label="Keep the screen on"
          hint={wakeHint()}
          offered={wakeLockOffered}
          checked={keepAwake}
          onChange={(checked) => setBackground({ keepAwake: checked })}
        />
        <Check
          label="Play a sound that nobody hears"
          hint={
            plays && sound.value === 'blocked'
              ? 'The browser plays nothing before you click somewhere on this page.'
              : 'Browsers slow a hidden tab less while it plays something.'
          }
          offered
          checked={plays}
          onChange={(checked) => setBackground({ sound: checked })}
        />
      </fieldset>
    </section>
  );
}

function wakeHint(): string {
  if (!wakeLockOffered) return 'This browser does not let pages keep the screen on.';
  if (typeof awake.value === 'string') return `The browser does not do it: ${awake.value}`;
  return 'While this tab is shown and serves.';
}
