// The list of keys.

import { For, onMount } from "solid-js"
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

// A table of all keys, also for the settings.
export function KeyTable() {
  return (
    <div class="key-groups">
      <For each={words.keys.groups}>
        {(group) => (
          <section>
            <h3>{group.title}</h3>
            <dl>
              <For each={group.keys}>
                {([key, effect]) => (
                  <div>
                    <dt>
                      <For each={key.split(" ")}>{(name) => <kbd>{name}</kbd>}</For>
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
