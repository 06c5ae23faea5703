// The menu of a prompt in the transcript: copy, link, fork, edit and send again, and take back.

import { For, Show, createSignal } from "solid-js"
import { call } from "../api.ts"
import { compose } from "../compose.ts"
import { turnOf } from "../core/revert.ts"
import { isBusy } from "../core/state.ts"
import { oneLine } from "../plain.ts"
import { go, messageLink, sessionLink } from "../route.ts"
import { give, watch, world } from "../store.ts"
import { words } from "../words.ts"
import { Confirm } from "./confirm.tsx"

// Distance of the menu from the edges of the window.
const EDGE = 8
// Changed files that are listed before they are taken back.
const MAX_FILES = 20

export function PromptMenu(props: { session: string; id: string }) {
  const [isOpen, setOpen] = createSignal(false)
  const [error, setError] = createSignal("")
  const [asked, setAsked] = createSignal<"edit" | "revert">()
  let button!: HTMLButtonElement
  let menu!: HTMLDivElement
  const busy = () => (watch(`status ${props.session}`), isBusy(world, props.session))
  const turn = () => turnOf(world.windows.get(props.session)?.entries ?? [], props.id)
  const show = () => {
    setError("")
    setOpen(true)
    menu.showPopover()
    const at = button.getBoundingClientRect()
    const top = at.bottom + menu.offsetHeight + EDGE > innerHeight ? at.top - menu.offsetHeight : at.bottom
    menu.style.top = `${Math.max(EDGE, top)}px`
    menu.style.left = `${Math.max(EDGE, Math.min(at.left, innerWidth - menu.offsetWidth - EDGE))}px`
    menu.querySelector("button")?.focus()
  }
  const attempt = (work: () => Promise<unknown>) => () => {
    work().then(
      () => menu.hidePopover(),
      (failure) => setError(failure instanceof Error ? failure.message : String(failure)),
    )
  }
  const copy = (text: string) => attempt(() => navigator.clipboard.writeText(text))
  const fork = attempt(async () => {
    const { data } = await call("fork", { in: { sessionID: props.session }, body: { messageID: props.id } })
    const { prompt, attached } = turn()
    go(sessionLink(data.id).slice(1))
    await compose(data.id, prompt, attached)
  })
  const ask = (what: "edit" | "revert") => {
    menu.hidePopover()
    setAsked(what)
  }
  const revert = async (what: "edit" | "revert") => {
    const { prompt, attached } = turn()
    const began = world.tick
    const { data } = await call("revert", { in: { sessionID: props.session }, body: { messageID: props.id } })
    give({ kind: "sessions", began, sessions: [data] })
    if (what === "edit") await compose(props.session, prompt, attached)
  }
  const keys = (event: KeyboardEvent) => {
    // Escape closes the menu only, and does not stop the turn.
    if (event.key === "Escape") event.stopPropagation()
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (step === 0) return
    event.preventDefault()
    const all = [...menu.querySelectorAll("button")]
    all[(all.indexOf(document.activeElement as HTMLButtonElement) + step + all.length) % all.length]?.focus()
  }
  return (
    <div class="prompt-menu">
      <button ref={button} type="button" class="quiet" aria-label={words.promptMenu.menu} title={words.promptMenu.menu} aria-haspopup="true" aria-expanded={isOpen()} onClick={show}>
        ⋯
      </button>
      <div ref={menu} popover="auto" class="items" on:keydown={keys} on:toggle={(event) => setOpen((event as ToggleEvent).newState === "open")}>
        <Show when={isOpen()}>
          <Show when={navigator.clipboard}>
            <button type="button" onClick={copy(turn().prompt)}>
              {words.promptMenu.copy}
            </button>
            <Show when={turn().answer}>
              <button type="button" onClick={copy(turn().answer)}>
                {words.copyAnswer}
              </button>
            </Show>
            <button type="button" onClick={copy(new URL(messageLink(props.session, props.id), location.href).href)}>
              {words.list.copyLink}
            </button>
          </Show>
          <button type="button" onClick={fork}>
            {words.promptMenu.fork}
          </button>
          <Show when={!busy()}>
            <button type="button" onClick={() => ask("edit")}>
              {words.promptMenu.edit}
            </button>
            <button type="button" onClick={() => ask("revert")}>
              {words.promptMenu.revert}
            </button>
          </Show>
          <Show when={error()}>
            <p class="error" role="alert">
              {error()}
            </p>
          </Show>
        </Show>
      </div>
      <Show when={asked()}>
        {(what) => (
          <Confirm title={words.promptMenu.revertSure(turn().prompts)} action={words.promptMenu.takeBack} onConfirm={() => revert(what())} onClose={() => setAsked(undefined)}>
            <p>{turn().files.length > 0 ? words.promptMenu.revertFiles : words.promptMenu.revertNoFiles}</p>
            <ul class="files">
              <For each={turn().files.slice(0, MAX_FILES)}>{(file) => <li>{oneLine(file)}</li>}</For>
              <Show when={turn().files.length > MAX_FILES}>
                <li>{words.changes.leftOut(turn().files.length - MAX_FILES)}</li>
              </Show>
            </ul>
          </Confirm>
        )}
      </Show>
    </div>
  )
}
