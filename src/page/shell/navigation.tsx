import { forgetJoin } from '../link.ts';
import { state } from '../node.ts';
import { TONES } from '../state-words.ts';
import { route, VIEWS } from './route.ts';

/** The views, of which none joins where a user goes back to it; beside the node's own, a dot while it serves or is on its way. */
export function Navigation() {
  const tone = TONES[state.value];
  return (
    <nav class="views" aria-label="Views">
      {VIEWS.map(({ name, title }) => (
        <a key={name} href={`#${name}`} aria-current={route.value === name ? 'page' : undefined} onClick={forgetJoin}>
          {title}
          {name === 'node' && tone && (
            <>
              <span class="dot" data-tone={tone} />
              <span class="visually-hidden">({state.value})</span>
            </>
          )}
        </a>
      ))}
    </nav>
  );
}
