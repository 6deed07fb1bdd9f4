import { cosine } from '../../contract/cosine.ts';
import { count } from '../format.ts';
import { TableFrame } from '../table-frame.tsx';
import { TASK_WORDS } from '../task-words.ts';
import { asking, type Embedded, embedded, embedLines, lines, problem } from './embed-texts.ts';
import type { VectorModel } from './open-tokenizer.ts';

/** Of a model that generates nothing: texts, and how alike their vectors are, or what they score. */
export function EmbedCard({ model }: { readonly model: VectorModel }) {
  return (
    <section class="card" aria-labelledby="embed-title">
      <h2 id="embed-title">Texts</h2>
      <p>This model {TASK_WORDS[model.task]}: there is nothing to chat with.</p>
      <form
        class="composer"
        onSubmit={(event) => {
          event.preventDefault();
          void embedLines();
        }}
      >
        <label class="field">
          One text a line
          <textarea
            rows={6}
            value={lines.value}
            onInput={(event) => {
              lines.value = event.currentTarget.value;
            }}
          />
        </label>
        {problem.value && (
          <p class="notice" role="alert" data-tone="bad">
            {problem.value}
          </p>
        )}
        <div class="composer-foot">
          <p class="hint">What you write is seen by the nodes that answer.</p>
          <button type="submit" class="primary" disabled={asking.value}>
            {model.task === 'embed' ? 'Embed' : 'Classify'}
          </button>
        </div>
      </form>
      {embedded.value && <Result result={embedded.value} embeds={model.task === 'embed'} />}
    </section>
  );
}

function Result({ result, embeds }: { readonly result: Embedded; readonly embeds: boolean }) {
  const { texts, vectors, promptTokens } = result;
  const columns = embeds ? vectors.map((_, at) => `${at + 1}`) : vectors[0]!.map((_, id) => `Class ${id}`);
  const cells = vectors.map((row) => (embeds ? vectors.map((other) => cosine(row, other)) : row));
  return (
    <>
      <p role="status">
        {count(promptTokens)} tokens, {count(vectors[0]!.length)} numbers a text.
      </p>
      <TableFrame label={embeds ? 'Cosines of each two texts' : 'Scores'}>
        <table>
          <thead>
            <tr>
              <th scope="col">Text</th>
              {columns.map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {cells.map((row, at) => (
              <tr key={`${at} ${texts[at]}`}>
                <th scope="row">
                  {at + 1}: {texts[at]}
                </th>
                {row.map((value, column) => (
                  <td key={columns[column]} class="number">
                    {value.toFixed(4)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </>
  );
}
