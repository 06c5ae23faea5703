// The list of keys, and its form in the settings, where each can be changed.

import { For, Show, createSignal, onCleanup, onMount } from "solid-js"
import { type Action, PLACES, actionsOf, chordOf, conflictsOf, isReserved } from "../core/chords.ts"
import { isChanged, keyNames, keys, setKey } from "../keys.ts"
import { words } from "../words.ts"

export function Keys(props: { onClose: () => void }) {
  let dialog!: HTMLDialogElement
  onMount(() => dialog.showModal())
  return (
    <dialog ref={dialog} class="keys" aria-label={words.keys.title} onClose={props.onClose}>
      <header>
        <h2>{words.keys.title}</h2>
        <button type="button" class="quiet" aria-label={words.keys.close} onClick={() => dialog.close()}>
          ✕
        </button>
      </header>
      <KeyTable />
    </dialog>
  )
}

const Names = (props: { names: string[] }) => <For each={props.names}>{(name) => <kbd>{name}</kbd>}</For>

// A table of all keys. Those of text fields and dialogs are the same everywhere and cannot be changed.
export function KeyTable(props: { isEditable?: boolean }) {
  return (
    <div class="key-groups">
      <For each={PLACES}>
        {(place) => (
          <section>
            <h3>{words.bindings.places[place]}</h3>
            <dl>
              <For each={actionsOf(place)}>
                {(action) => (
                  <div>
                    <dt>
                      <Show when={props.isEditable} fallback={<Names names={keyNames(keys()[action])} />}>
                        <KeyEdit action={action} />
                      </Show>
                    </dt>
                    <dd>
                      {words.bindings.actions[action]}
                      <Conflicts action={action} />
                    </dd>
                  </div>
                )}
              </For>
            </dl>
          </section>
        )}
      </For>
      <For each={words.keys.groups}>
        {(group) => (
          <section>
            <h3>{group.title}</h3>
            <dl>
              <For each={group.keys}>
                {([key, effect]) => (
                  <div>
                    <dt>
                      <Names names={key.split(" ")} />
                    </dt>
                    <dd>{effect}</dd>
                  </div>
                )}
              </For>
            </dl>
          </section>
        )}
      </For>
    </div>
  )
}

function Conflicts(props: { action: Action }) {
  const others = () => conflictsOf(keys(), props.action).map((it) => words.bindings.actions[it])
  return (
    <Show when={others().length > 0}>
      <span class="error" role="alert">
        {words.bindings.conflict(others())}
      </span>
    </Show>
  )
}

// A button that takes the next combination of keys. Escape keeps the old one.
function KeyEdit(props: { action: Action }) {
  const [isWaiting, setWaiting] = createSignal(false)
  const [refused, setRefused] = createSignal<string>()
  const listen = (event: KeyboardEvent) => {
    if (!isWaiting()) return
    event.preventDefault()
    event.stopImmediatePropagation()
    const chord = chordOf(event)
    if (!chord) return
    if (chord === "Escape") return setWaiting(false)
    if (isReserved(chord)) return setRefused(keyNames(chord).join("+"))
    setKey(props.action, chord)
    setWaiting(false)
  }
  // Before every other listener, so that the new key does nothing yet.
  onMount(() => window.addEventListener("keydown", listen, { capture: true }))
  onCleanup(() => window.removeEventListener("keydown", listen, { capture: true }))
  const name = () => words.bindings.actions[props.action]
  const begin = () => {
    setRefused(undefined)
    setWaiting(true)
  }
  return (
    <>
      <button type="button" class="key-edit" aria-label={words.bindings.change(name())} onClick={begin} onBlur={() => setWaiting(false)}>
        <Show when={!isWaiting()} fallback={words.bindings.press}>
          <Names names={keyNames(keys()[props.action])} />
        </Show>
      </button>
      <Show when={isWaiting() && refused()}>
        {(chord) => (
          <span class="error" role="alert">
            {words.bindings.reserved(chord())}
          </span>
        )}
      </Show>
      <Show when={isChanged(props.action)}>
        <button type="button" class="quiet" aria-label={words.bindings.reset(name())} title={words.bindings.reset(name())} onClick={() => setKey(props.action, undefined)}>
          ↺
        </button>
      </Show>
    </>
  )
}
