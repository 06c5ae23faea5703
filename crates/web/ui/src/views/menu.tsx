// The menu of a session: everything that is done rarely.

import { Show, createSignal, onCleanup, onMount } from "solid-js"
import { type Body, call } from "../api.ts"
import type { Session } from "../core/wire.ts"
import { deleteLater, isPinned, setPinned } from "../lists.ts"
import { markUnread } from "../marks.ts"
import { isMuted, setMuted } from "../notify.ts"
import { go, sessionLink } from "../route.ts"
import { give, world } from "../store.ts"
import { words } from "../words.ts"

export function SessionMenu(props: { id: string; info?: Session; onRename: () => void }) {
  const [error, setError] = createSignal("")
  let menu!: HTMLDetailsElement
  const close = () => (menu.open = false)
  const outside = (event: Event) => menu.open && !menu.contains(event.target as Node) && close()
  const escape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !menu.open) return
    event.preventDefault()
    close()
    menu.querySelector("summary")?.focus()
  }
  onMount(() => {
    document.addEventListener("pointerdown", outside)
    document.addEventListener("focusin", outside)
    // Before the listeners that stop a turn.
    document.addEventListener("keydown", escape, { capture: true })
    onCleanup(() => {
      document.removeEventListener("pointerdown", outside)
      document.removeEventListener("focusin", outside)
      document.removeEventListener("keydown", escape, { capture: true })
    })
  })
  const update = async (body: Body<"update">) => {
    const began = world.tick
    setError("")
    try {
      const { data } = await call("update", { in: { sessionID: props.id }, body })
      give({ kind: "sessions", began, sessions: [data] })
      close()
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure))
    }
  }
  const attempt = async (work: () => Promise<unknown>) => {
    setError("")
    await work().then(close, (failure) => setError(failure instanceof Error ? failure.message : String(failure)))
  }
  const fork = () =>
    attempt(async () => {
      const { data } = await call("fork", { in: { sessionID: props.id }, body: {} })
      go(sessionLink(data.id).slice(1))
    })
  const copyLink = () =>
    attempt(() => navigator.clipboard.writeText(new URL(sessionLink(props.id), location.href).href))
  const rename = () => {
    close()
    props.onRename()
  }
  const continues = () => props.info?.continuation?.enabled ?? true
  const isArchived = () => props.info?.time.archived !== undefined
  return (
    <details class="menu" ref={menu}>
      <summary aria-label={words.menu} title={words.menu}>
        ⋯
      </summary>
      <div class="items">
        <button type="button" onClick={rename}>
          {words.rename}
        </button>
        <button
          type="button"
          onClick={() => {
            markUnread(props.id)
            close()
          }}
        >
          {words.markUnread}
        </button>
        <button type="button" aria-pressed={isPinned(props.id)} onClick={() => setPinned([props.id], !isPinned(props.id))}>
          {words.list.pin}
        </button>
        <button type="button" aria-pressed={isMuted(props.id)} onClick={() => setMuted(props.id, !isMuted(props.id))}>
          {words.mute}
        </button>
        <button type="button" aria-pressed={continues()} onClick={() => void update({ continuation: !continues() })}>
          {words.continueByItself}
        </button>
        <button type="button" onClick={() => void update({ time: { archived: isArchived() ? undefined : Date.now() } })}>
          {isArchived() ? words.unarchive : words.archive}
        </button>
        <button type="button" onClick={() => void fork()}>
          {words.list.fork}
        </button>
        <button type="button" onClick={() => void copyLink()}>
          {words.list.copyLink}
        </button>
        <button type="button" onClick={() => deleteLater([props.id])}>
          {words.list.delete}
        </button>
        <Show when={error()}>
          <p class="error" role="alert">
            {error()}
          </p>
        </Show>
      </div>
    </details>
  )
}
