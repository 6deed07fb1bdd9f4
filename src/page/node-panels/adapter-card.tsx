import { count } from '../format.ts';
import { KernelTest } from '../kernel-view.tsx';
import { facts } from '../node.ts';
import { TASK_WORDS } from '../task-words.ts';

/** What the node computes on, which model, and what became of its self-test. */
export function AdapterCard() {
  if (!facts.value) return null;
  const { model, task, adapter, features, contextLength, poolTokens } = facts.value;
  const name = adapter.description || [adapter.vendor, adapter.architecture].filter(Boolean).join(' ') || 'unnamed';
  return (
    <section class="card" aria-labelledby="adapter-title">
      <div class="card-head">
        <h2 id="adapter-title">GPU and model</h2>
        {adapter.fallback && (
          <span class="badge" data-tone="warn">
            Software adapter
          </span>
        )}
      </div>
      {adapter.fallback && (
        <p class="notice" data-tone="warn">
          This is a software adapter: the processor does the GPU's work. It works, but slowly.
        </p>
      )}
      <dl class="facts">
        <dt>Adapter</dt>
        <dd>{name}</dd>
        <dt>Model</dt>
        <dd>
          {model}, which {TASK_WORDS[task]}
        </dd>
        <dt>Context</dt>
        <dd>
          {count(contextLength)} tokens a {task === 'generate' ? 'sequence' : 'text'}, {count(poolTokens)} in all
        </dd>
        <dt>Features</dt>
        <dd>{features.length > 0 ? features.join(', ') : 'none beyond the core'}</dd>
      </dl>
      <KernelTest />
    </section>
  );
}
