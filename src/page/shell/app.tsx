import { useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { forgetJoin } from '../link.ts';
import { NodeView } from '../node-view.tsx';
import { lazyView } from './lazy-view.tsx';
import { Mark } from './mark.tsx';
import { Navigation } from './navigation.tsx';
import { route, VIEWS } from './route.ts';
import { ThemeButton } from './theme-button.tsx';

const COMPONENTS = {
  node: NodeView,
  fleet: lazyView('Fleet', async () => (await import('../fleet/fleet-view.tsx')).FleetView),
  playground: lazyView('Playground', async () => (await import('../playground/playground-view.tsx')).PlaygroundView),
} as const;

/** The page: a bar with its views, and the one that its address names. */
export function App() {
  const view = useRef<HTMLElement>(null);
  useSignalEffect(() => {
    document.title = `${VIEWS.find(({ name }) => name === route.value)!.title} · shoal`;
  });
  const View = COMPONENTS[route.value];
  return (
    <>
      <button type="button" class="skip" onClick={() => view.current?.focus()}>
        Skip to the content
      </button>
      <header class="bar">
        <div class="bar-inner">
          <a class="brand" href={`#${VIEWS[0].name}`} onClick={forgetJoin}>
            <Mark />
            <span class="brand-name">shoal</span>
          </a>
          <Navigation />
          <div class="bar-end">
            <ThemeButton />
          </div>
        </div>
      </header>
      <main class="view" ref={view} tabIndex={-1}>
        <View />
      </main>
    </>
  );
}
