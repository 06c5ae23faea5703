// A question before something that cannot be taken back.

import { type JSX, Show, createSignal, onCleanup, onMount } from "solid-js"
import { words } from "../words.ts"

// A dialog that has just appeared ignores clicks that were meant for something else.
const GUARD_MS = 400

export function Confirm(props: {
  title: string
  action: string
  onConfirm: () => Promise<unknown>
  onClose: () => void
  children?: JSX.Element
}) {
  const [isArmed, setArmed] = createSignal(false)
  const [error, setError] = createSignal("")
  let dialog!: HTMLDialogElement
  const timer = setTimeout(() => setArmed(true), GUARD_MS)
  onCleanup(() => clearTimeout(timer))
  onMount(() => dialog.showModal())
  const confirm = () => {
    setArmed(false)
    props.onConfirm().then(props.onClose, (failure) => {
      setError(failure instanceof Error ? failure.message : String(failure))
      setArmed(true)
    })
  }
  return (
    <dialog ref={dialog} class="confirm" aria-label={props.title} onClose={props.onClose}>
      <h2>{props.title}</h2>
      {props.children}
      <Show when={error()}>
        <p class="error" role="alert">
          {error()}
        </p>
      </Show>
      <div class="buttons">
        <button type="button" class="danger" disabled={!isArmed()} onClick={confirm}>
          {props.action}
        </button>
        <button type="button" onClick={() => dialog.close()}>
          {words.cancel}
        </button>
      </div>
    </dialog>
  )
}
