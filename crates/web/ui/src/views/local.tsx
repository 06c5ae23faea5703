// Settings of this browser: notifications and stored data.

import { For, Show, createSignal } from "solid-js"
import { clearStorage, usage } from "../kept.ts"
import { change, settings } from "../settings.ts"
import { count, words } from "../words.ts"
import { Confirm } from "./confirm.tsx"
import { Toggle } from "./toggle.tsx"

export function Notifications() {
  const [permission, setPermission] = createSignal(typeof Notification === "undefined" ? "missing" : Notification.permission)
  const toggle = async (isWanted: boolean) => {
    if (isWanted && permission() === "default") setPermission(await Notification.requestPermission())
    change({ notifies: isWanted && permission() === "granted" })
  }
  return (
    <>
      <p>{words.settings.notifyText}</p>
      <Show when={window.isSecureContext && permission() !== "missing"} fallback={<p class="fate">{words.settings.notifyInsecure}</p>}>
        <Toggle label={words.settings.notify} value={settings().notifies && permission() === "granted"} onChange={(it) => void toggle(it)} />
        <Show when={permission() === "denied"}>
          <p class="fate">{words.settings.notifyDenied}</p>
        </Show>
      </Show>
    </>
  )
}

export function Storage() {
  const [sizes, setSizes] = createSignal(usage())
  const [isAsked, setAsked] = createSignal(false)
  return (
    <>
      <p>{words.settings.storageText}</p>
      <table>
        <tbody>
          <For each={sizes()} fallback={<tr><td>{words.settings.storageNone}</td></tr>}>
            {({ name, size }) => (
              <tr>
                <th scope="row">{words.settings.stored(name)}</th>
                <td>{words.settings.characters(count(size))}</td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
      <button type="button" class="danger" disabled={sizes().length === 0} onClick={() => setAsked(true)}>
        {words.settings.clear}
      </button>
      <Show when={isAsked()}>
        <Confirm
          title={words.settings.clearSure}
          action={words.settings.clear}
          onClose={() => setAsked(false)}
          onConfirm={async () => {
            clearStorage()
            setSizes(usage())
          }}
        >
          <p>{words.settings.clearText}</p>
        </Confirm>
      </Show>
    </>
  )
}
