/** A box to tick, with what its user should know of it; where the browser can't do it, it can't be ticked. */
export function Check(props: {
  readonly label: string;
  readonly hint: string | undefined;
  readonly offered: boolean;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}) {
  const { label, hint, offered, checked, onChange } = props;
  const id = label.toLowerCase().replaceAll(' ', '-');
  return (
    <div class="check">
      <input
        id={id}
        type="checkbox"
        checked={checked && offered}
        disabled={!offered}
        aria-describedby={hint && `${id}-hint`}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {hint && (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  );
}
