// A switch with its label.

export function Toggle(props: { label: string; value: boolean; onChange: (value: boolean) => void }) {
  return (
    <label class="toggle">
      <input type="checkbox" role="switch" checked={props.value} onChange={(event) => props.onChange(event.target.checked)} />
      {props.label}
    </label>
  )
}
