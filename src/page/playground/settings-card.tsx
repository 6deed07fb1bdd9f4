import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Fields } from './fields.ts';
import { fault, fields, mode, resetFields, setField, system } from './playground.ts';
import { FlagSetting, LineSetting, NumberSetting, TextSetting } from './setting.tsx';

/** Every parameter of a request. Ranges are the relay's to judge: what it refuses, it names. */
export function SettingsCard() {
  return (
    <section class="card" aria-labelledby="settings-title">
      <div class="card-head">
        <h2 id="settings-title">Settings</h2>
        <button type="button" class="small" onClick={resetFields}>
          Reset
        </button>
      </div>
      {mode.value === 'chat' && <SystemMessage />}
      <div class="settings-fields">
        <NumberSetting field="temperature" label="Temperature" step={0.1} min={0} hint="0 takes the likeliest token." />
        <NumberSetting field="topP" label="Top p" step={0.05} min={0} max={1} />
        <NumberSetting field="maxNewTokens" label="Tokens at most" step={1} min={0} />
        <NumberSetting field="alternatives" label="Alternatives told" step={1} min={0} placeholder="none" />
      </div>
      <Group title="Structured output" fields={['jsonSchema', 'regex', 'ebnfGrammar', 'structuralTag']}>
        <Constraint />
      </Group>
      <Group title="More of sampling" fields={['topK', 'minP', 'seed', 'n', 'logitBias']}>
        <NumberSetting field="topK" label="Top k" step={1} min={-1} hint="−1 takes all." />
        <NumberSetting field="minP" label="Min p" step={0.01} min={0} max={1} />
        <NumberSetting field="seed" label="Seed" step={1} placeholder="random" />
        {mode.value === 'prompt' && <NumberSetting field="n" label="Samples" step={1} min={1} />}
        <TextSetting
          field="logitBias"
          label="Logit bias"
          rows={2}
          placeholder="426=-100"
          hint="ID=VALUE, one a line."
        />
      </Group>
      <Group title="Penalties" fields={['frequencyPenalty', 'presencePenalty', 'repetitionPenalty']}>
        <NumberSetting field="frequencyPenalty" label="Frequency" step={0.1} min={-2} max={2} />
        <NumberSetting field="presencePenalty" label="Presence" step={0.1} min={-2} max={2} />
        <NumberSetting field="repetitionPenalty" label="Repetition" step={0.05} min={0} max={2} hint="1 is none." />
      </Group>
      <Group title="Length and stops" fields={['minNewTokens', 'stop', 'stopTokenIds']}>
        <NumberSetting field="minNewTokens" label="Tokens at least" step={1} min={0} />
        <TextSetting field="stop" label="Stop texts" rows={2} hint="One a line." />
        <LineSetting field="stopTokenIds" label="Stop tokens" placeholder="2, 13" />
        <FlagSetting field="ignoreEos" label="Go on after the model's own end" />
        <FlagSetting field="skipSpecialTokens" label="Leave special tokens out of the text" />
      </Group>
      <Group title="Node" fields={['rank']}>
        <NumberSetting field="rank" label="Rank of the node" step={1} min={0} placeholder="any" />
      </Group>
    </section>
  );
}

/** Opens by itself where one of its fields is wrong. */
function Group(props: {
  readonly title: string;
  readonly fields: readonly (keyof Fields)[];
  readonly children: ComponentChildren;
}) {
  const { value } = fault;
  const wrong = value?.field !== undefined && props.fields.includes(value.field);
  const [open, setOpen] = useState(false);
  // Also where the same field is wrong once more.
  useEffect(() => {
    if (wrong) setOpen(true);
  }, [value]);
  return (
    <details class="settings-group" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{props.title}</summary>
      <div class="settings-fields">{props.children}</div>
    </details>
  );
}

function SystemMessage() {
  return (
    <div class="field">
      <label for="setting-system">System message</label>
      <textarea
        id="setting-system"
        rows={2}
        placeholder="The template's own"
        value={system.value}
        onInput={(event) => {
          system.value = event.currentTarget.value;
        }}
      />
    </div>
  );
}

const KINDS = [
  ['none', 'Free text'],
  ['jsonSchema', 'JSON schema'],
  ['regex', 'Regular expression'],
  ['ebnfGrammar', 'EBNF grammar'],
  ['structuralTag', 'Structural tag'],
] as const;

function Constraint() {
  const { constraint } = fields.value;
  const label = KINDS.find(([name]) => name === constraint)![1];
  return (
    <>
      <div class="field">
        <label for="setting-constraint">The answer is</label>
        <select
          id="setting-constraint"
          value={constraint}
          onChange={(event) => setField('constraint', event.currentTarget.value as Fields['constraint'])}
        >
          {KINDS.map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      </div>
      {constraint !== 'none' && <TextSetting key={constraint} field={constraint} label={label} rows={8} />}
    </>
  );
}
