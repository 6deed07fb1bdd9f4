import type { ComponentChildren } from 'preact';
import type { Fields } from './fields.ts';
import { fault, fields, setField } from './playground.ts';

type TextField = { [K in keyof Fields]: Fields[K] extends string ? K : never }[keyof Fields];
type FlagField = { [K in keyof Fields]: Fields[K] extends boolean ? K : never }[keyof Fields];

interface SettingProps {
  readonly field: TextField;
  readonly label: string;
  readonly hint?: string;
}

/** Words, its control, a hint, and what is wrong with it. */
function Frame(props: SettingProps & { readonly row?: boolean; readonly children: ComponentChildren }) {
  const { field, label, hint, row, children } = props;
  const wrong = fault.value?.field === field ? fault.value.message : undefined;
  return (
    <div class={row ? 'field row' : 'field'}>
      <label for={`setting-${field}`}>{label}</label>
      {children}
      {(wrong ?? hint) && (
        <p id={`setting-${field}-hint`} class="hint" data-tone={wrong ? 'bad' : undefined}>
          {wrong ?? hint}
        </p>
      )}
    </div>
  );
}

function controlProps({ field, hint }: SettingProps) {
  const wrong = fault.value?.field === field;
  return {
    id: `setting-${field}`,
    value: fields.value[field],
    ...(wrong ? { 'aria-invalid': true } : {}),
    ...(wrong || hint ? { 'aria-describedby': `setting-${field}-hint` } : {}),
    spellcheck: false,
  };
}

export function NumberSetting(
  props: SettingProps & {
    readonly step?: number | 'any';
    readonly min?: number;
    readonly max?: number;
    readonly placeholder?: string;
  },
) {
  const { field, step = 'any', min, max, placeholder } = props;
  return (
    <Frame {...props} row>
      <input
        {...controlProps(props)}
        type="number"
        inputMode={step === 'any' ? 'decimal' : 'numeric'}
        step={step}
        min={min}
        max={max}
        placeholder={placeholder}
        onInput={({ currentTarget }) => setField(field, currentTarget.value, !currentTarget.validity.badInput)}
      />
    </Frame>
  );
}

export function LineSetting(props: SettingProps & { readonly placeholder?: string }) {
  return (
    <Frame {...props}>
      <input
        {...controlProps(props)}
        class="code"
        type="text"
        autoComplete="off"
        placeholder={props.placeholder}
        onInput={(event) => setField(props.field, event.currentTarget.value)}
      />
    </Frame>
  );
}

export function TextSetting(props: SettingProps & { readonly rows: number; readonly placeholder?: string }) {
  return (
    <Frame {...props}>
      <textarea
        {...controlProps(props)}
        class="code"
        rows={props.rows}
        placeholder={props.placeholder}
        onInput={(event) => setField(props.field, event.currentTarget.value)}
      />
    </Frame>
  );
}

export function FlagSetting({ field, label }: { readonly field: FlagField; readonly label: string }) {
  return (
    <div class="check">
      <input
        id={`setting-${field}`}
        type="checkbox"
        checked={fields.value[field]}
        onChange={(event) => setField(field, event.currentTarget.checked)}
      />
      <label for={`setting-${field}`}>{label}</label>
    </div>
  );
}
