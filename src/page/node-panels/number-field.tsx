/** A whole number; one outside of its range is told to the user, and not taken. */
export function NumberField(props: {
  readonly label: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  readonly onChange: (value: number) => void;
}) {
  const { label, value, min, max, onChange } = props;
  return (
    <label class="field row">
      {label}{' '}
      <input
        type="number"
        min={min}
        max={max}
        step={1}
        required
        value={value}
        onChange={(event) => {
          const { valueAsNumber, validity } = event.currentTarget;
          if (validity.valid) onChange(valueAsNumber);
          else event.currentTarget.reportValidity();
        }}
      />
    </label>
  );
}
