// Settings of this browser: notifications and stored data.

import { For, Show, createResource, createSignal } from "solid-js"
import { clearStorage, usage } from "../kept.ts"
import { notificationSettings, notificationState, setNotifications, switchOn } from "../notify.ts"
import { clearTables, countOf } from "../storage.ts"
import { count, words } from "../words.ts"
import { Confirm } from "./confirm.tsx"
import { Toggle } from "./toggle.tsx"

const KINDS = ["request", "failed", "completed"] as const

export function Notifications() {
  const isPossible = () => ["on", "off"].includes(notificationState())
  return (
    <>
      <p>{words.settings.notifyText}</p>
      <Show when={isPossible()} fallback={<p class="fate">{words.settings.notifyWhyNot(notificationState() === "denied")}</p>}>
        <Toggle
          label={words.settings.notify}
          value={notificationState() === "on"}
          onChange={(isOn) => (isOn ? void switchOn() : setNotifications({ isOn }))}
        />
        <For each={KINDS}>
          {(kind) => (
            <Toggle
              label={words.settings.notifyKinds[kind]}
              value={notificationSettings()[kind]}
              onChange={(value) => setNotifications({ [kind]: value })}
            />
          )}
        </For>
        <QuietHours />
      </Show>
    </>
  )
}

function QuietHours() {
  const hours = notificationSettings
  return (
    <fieldset class="quiet-hours">
      <legend>{words.quiet.title}</legend>
      <p class="fate">{words.quiet.text}</p>
      <label>
        {words.quiet.from}
        <input type="time" value={hours().quietFrom} onInput={(event) => setNotifications({ quietFrom: event.target.value })} />
      </label>
      <label>
        {words.quiet.to}
        <input type="time" value={hours().quietTo} onInput={(event) => setNotifications({ quietTo: event.target.value })} />
      </label>
      <Show when={hours().quietFrom || hours().quietTo}>
        <button type="button" onClick={() => setNotifications({ quietFrom: "", quietTo: "" })}>
          {words.quiet.none}
        </button>
      </Show>
    </fieldset>
  )
}

export function Storage() {
  const [sizes, setSizes] = createSignal(usage())
  const [drafts, { refetch }] = createResource(() => countOf("drafts").catch(() => 0))
  const [isAsked, setAsked] = createSignal(false)
  return (
    <>
      <p>{words.settings.storageText}</p>
      <table>
        <tbody>
          <tr>
            <th scope="row">{words.settings.drafts}</th>
            <td>{drafts.latest ?? ""}</td>
          </tr>
          <For each={sizes()}>
            {({ name, size }) => (
              <tr>
                <th scope="row">{words.settings.stored(name)}</th>
                <td>{words.settings.characters(count(size))}</td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
      <button type="button" class="danger" onClick={() => setAsked(true)}>
        {words.settings.clear}
      </button>
      <Show when={isAsked()}>
        <Confirm
          title={words.settings.clearSure}
          action={words.settings.clear}
          onClose={() => setAsked(false)}
          onConfirm={async () => {
            await clearTables()
            clearStorage()
            setSizes(usage())
            await refetch()
          }}
        >
          <p>{words.settings.clearText}</p>
        </Confirm>
      </Show>
    </>
  )
}
