// Settings of the server: approvals, providers, signed-in browsers, and its version.

import { For, Show, createResource, createSignal } from "solid-js"
import { call } from "../api.ts"
import { oneLine, visible } from "../plain.ts"
import { age, moment, words } from "../words.ts"
import { Loaded } from "./loaded.tsx"
import { Login, type Method } from "./login.tsx"

interface Approval {
  id: string
  directory: string
  action: string
  resource: string
}

export function useCall() {
  const [error, setError] = createSignal("")
  const attempt = async (work: () => Promise<unknown>) => {
    setError("")
    await work().catch((failure) => setError(failure instanceof Error ? failure.message : String(failure)))
  }
  return [error, attempt] as const
}

export function Problem(props: { text: string }) {
  return (
    <Show when={props.text}>
      <p class="error" role="alert">
        {props.text}
      </p>
    </Show>
  )
}

export function Approvals() {
  const [found, { refetch }] = createResource(() => call("approvals").then((it) => it.data.data))
  const [error, attempt] = useCall()
  const forget = (id: string) =>
    attempt(async () => {
      await call("forget", { in: { id } })
      await refetch()
    })
  return (
    <>
      <p>{words.settings.approvalsText}</p>
      <Problem text={error()} />
      <Loaded of={found} again={() => void refetch()}>
        {(value) => (
          <ul class="settings-list">
            <For each={value()} fallback={<li class="fate">{words.settings.noApprovals}</li>}>
              {(it) => (
                <li>
                  <code>{oneLine(it.action)}</code>
                  <span class="grow">
                    {visible(it.resource)} <span class="fate">{oneLine(it.directory)}</span>
                  </span>
                  <button type="button" onClick={() => void forget(it.id)}>
                    {words.settings.forget}
                  </button>
                </li>
              )}
            </For>
          </ul>
        )}
      </Loaded>
    </>
  )
}

interface All {
  all: { id: string; name: string; models: Record<string, unknown> }[]
  connected: string[]
}

export function ProviderKeys() {
  const [found, { refetch }] = createResource(() => call("allProviders").then((it) => it.data))
  const [logins] = createResource(() => call("logins").then((it) => it.data).catch((): Record<string, Method[]> => ({})))
  // The index is the server's name of a method. A key has its own field.
  const methodsOf = (provider: string) =>
    (logins.latest?.[provider] ?? []).map((method, index) => ({ method, index })).filter(({ method }) => method.type === "oauth")
  const [filter, setFilter] = createSignal("")
  const [chosen, setChosen] = createSignal<string>()
  const [error, attempt] = useCall()
  const save = (event: SubmitEvent, providerID: string) => {
    event.preventDefault()
    const key = String(new FormData(event.currentTarget as HTMLFormElement).get("key") ?? "")
    void attempt(async () => {
      await call("saveKey", { in: { providerID }, body: { type: "api", key } })
      setChosen(undefined)
      await refetch()
    })
  }
  const remove = (providerID: string) =>
    attempt(async () => {
      await call("removeKey", { in: { providerID } })
      await refetch()
    })
  const shown = (value: All) => {
    const wanted = filter().toLowerCase()
    const isConnected = (id: string) => value.connected.includes(id)
    return value.all
      .filter((it) => it.name.toLowerCase().includes(wanted) || it.id.includes(wanted))
      .sort((left, right) => Number(isConnected(right.id)) - Number(isConnected(left.id)) || left.name.localeCompare(right.name))
  }
  return (
    <>
      <p>{words.settings.providersText}</p>
      <input type="search" placeholder={words.settings.filter} aria-label={words.settings.filter} onInput={(event) => setFilter(event.target.value)} />
      <Problem text={error()} />
      <Loaded of={found} again={() => void refetch()}>
        {(value) => (
          <ul class="settings-list">
            <For each={shown(value())}>
              {(it) => (
                <li>
                  <span class="grow">
                    {oneLine(it.name)} <span class="fate">{words.settings.models(Object.keys(it.models).length)}</span>
                  </span>
                  <Show when={value().connected.includes(it.id)}>
                    <span class="good">{words.settings.connected}</span>
                  </Show>
                  <Show
                    when={chosen() === it.id}
                    fallback={
                      <>
                        <For each={methodsOf(it.id)}>
                          {({ method, index }) => <Login provider={it.id} method={method} index={index} onDone={() => void refetch()} />}
                        </For>
                        <button type="button" onClick={() => setChosen(it.id)}>
                          {words.settings.setKey}
                        </button>
                        <Show when={value().connected.includes(it.id) && it.id !== "demo"}>
                          <button type="button" onClick={() => void remove(it.id)}>
                            {words.settings.forget}
                          </button>
                        </Show>
                      </>
                    }
                  >
                    <form onSubmit={(event) => save(event, it.id)}>
                      <input name="key" type="password" autocomplete="off" required aria-label={words.settings.keyOf(it.name)} placeholder={words.settings.key} />
                      <button class="primary">{words.settings.save}</button>
                    </form>
                  </Show>
                </li>
              )}
            </For>
          </ul>
        )}
      </Loaded>
    </>
  )
}

interface Browser {
  id: string
  agent: string
  created: number
  seen: number
}

export function Browsers() {
  const [found, { refetch }] = createResource(() => call("browsers").then((it) => it.data))
  const [error, attempt] = useCall()
  const signOut = (browserID: string) =>
    attempt(async () => {
      await call("signOut", { in: { browserID } })
      await refetch()
    })
  const leave = () =>
    attempt(async () => {
      await call("logout", { body: { path: location.pathname } })
      location.reload()
    })
  return (
    <>
      <p>{words.settings.browsersText}</p>
      <Problem text={error()} />
      <Loaded of={found} again={() => void refetch()}>
        {(value) => (
          <>
            <ul class="settings-list">
              <For each={value()} fallback={<li class="fate">{words.settings.noBrowsers}</li>}>
                {(it) => (
                  <li>
                    <span class="grow">
                      {oneLine(it.agent)}
                      <span class="fate">
                        {words.settings.signedIn(moment(it.created))} · {age(it.seen, Date.now())}
                      </span>
                    </span>
                    <button type="button" onClick={() => void signOut(it.id)}>
                      {words.settings.signOut}
                    </button>
                  </li>
                )}
              </For>
            </ul>
            <Show when={value().length > 0}>
              <button type="button" onClick={() => void leave()}>
                {words.settings.signOutHere}
              </button>
            </Show>
          </>
        )}
      </Loaded>
    </>
  )
}

const PACKAGES = [
  ["solid-js", "MIT"],
  ["marked", "MIT"],
  ["lowlight", "MIT"],
  ["highlight.js", "BSD-3-Clause"],
  ["@xterm/xterm", "MIT"],
] as const

export function About() {
  const [found, { refetch }] = createResource(() => call("health"))
  return (
    <Loaded of={found} again={() => void refetch()}>
      {(value) => (
        <dl class="about-list">
          <dt>{words.settings.version}</dt>
          <dd>{value().data.baton ?? words.totals.none}</dd>
          <dt>{words.settings.compatible}</dt>
          <dd>{value().data.version}</dd>
          <Show when={value().data.problem}>
            {(problem) => (
              <>
                <dt>{words.settings.problem}</dt>
                <dd class="error">{problem()}</dd>
              </>
            )}
          </Show>
          <dt>{words.settings.page}</dt>
          <dd>{value().headers.get("x-baton-page") ?? words.totals.none}</dd>
          <dt>{words.settings.licences}</dt>
          <dd>
            <For each={PACKAGES}>{([name, licence]) => <div>{`${name}: ${licence}`}</div>}</For>
          </dd>
        </dl>
      )}
    </Loaded>
  )
}
