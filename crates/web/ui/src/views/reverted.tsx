// The banner of prompts that have been taken back.

import { Show, createSignal } from "solid-js"
import { call } from "../api.ts"
import { turnOf } from "../core/revert.ts"
import { give, watch, world } from "../store.ts"
import { words } from "../words.ts"

// Shown until the next prompt removes them.
export function Reverted(props: { id: string }) {
  const [error, setError] = createSignal("")
  const revert = () => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info.revert)
  const count = () => {
    watch(`messages ${props.id}`)
    return turnOf(world.windows.get(props.id)?.entries ?? [], revert()?.messageID ?? "").prompts
  }
  const bringBack = async () => {
    const began = world.tick
    setError("")
    try {
      const { data } = await call("unrevert", { in: { sessionID: props.id } })
      give({ kind: "sessions", began, sessions: [data] })
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure))
    }
  }
  return (
    <Show when={revert()}>
      <div class="banner" data-kind="reverted" role="status">
        <p>
          <strong>{words.promptMenu.reverted(count())}</strong> {words.promptMenu.revertedText}
          <Show when={error()}>
            <span class="error"> {error()}</span>
          </Show>
        </p>
        <span class="buttons">
          <button type="button" onClick={() => void bringBack()}>
            {words.promptMenu.bringBack}
          </button>
        </span>
      </div>
    </Show>
  )
}
