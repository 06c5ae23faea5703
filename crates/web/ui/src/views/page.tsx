// The frame of the page: the list beside the session, the state of the connection, and the sign-in.

import { ErrorBoundary, Match, Show, Switch, createEffect, createMemo, createResource, createSignal, onMount } from "solid-js"
import { announcement } from "../announce.ts"
import { call } from "../api.ts"
import { requestsOf, rowState } from "../core/state.ts"
import { go, route } from "../route.ts"
import { startMarks } from "../marks.ts"
import { startNotifying } from "../notify.ts"
import { startWorker } from "../install.ts"
import { isKey } from "../keys.ts"
import { isRail, listWidth } from "../lists.ts"
import { startSending } from "../sending.ts"
import { hurry, isOutdated, show, start, watch, world } from "../store.ts"
import { words } from "../words.ts"
import { List } from "./list.tsx"
import { Overlays } from "./overlays.tsx"
import { Panel, panelOf } from "./panel.tsx"
import { part } from "./part.ts"
import { Session } from "./session.tsx"
import { PhoneTabs } from "./tabs.tsx"
import { holdKeys } from "./typeahead.ts"

// Screens that the first load does not need.
const New = part(() => import("./new.tsx").then((it) => it.New))
const SignIn = part(() => import("./signin.tsx").then((it) => it.SignIn))
const Overview = part(() => import("./overview.tsx").then((it) => it.Overview))
const Needs = part(() => import("./needs.tsx").then((it) => it.Needs))
const Settings = part(() => import("./settings.tsx").then((it) => it.Settings))

export function Page() {
  const [me, { refetch }] = createResource(() => call("me").then((it) => it.data))
  const [isStarted, setStarted] = createSignal(false)
  const session = createMemo(() => {
    const to = route()
    return to.screen === "session" ? to.id : undefined
  })
  const mustSignIn = () => {
    watch("phase")
    return world.phase.kind === "signin" || (me.state === "ready" && !me().signedIn)
  }
  createEffect(() => {
    // A page that cannot ask yet tries the stream, whose failures are shown.
    const isAllowed = me.state === "errored" || (me.state === "ready" && me().signedIn)
    if (isAllowed && !isStarted()) {
      setStarted(true)
      startMarks()
      startNotifying()
      startSending()
      startWorker()
      start()
    }
  })
  createEffect(() => {
    if (isStarted()) void show(session() ?? null)
  })
  const waiting = createMemo(() => {
    watch("requests")
    return world.requests.size
  })
  const isUnread = createMemo(() => (watch("list"), world.unread.size > 0))
  createEffect(() => {
    document.title = waiting() > 0 ? `(${waiting()}) Baton` : isUnread() ? "• Baton" : "Baton"
    // The icon of an installed page.
    void (waiting() > 0 ? navigator.setAppBadge?.(waiting()) : navigator.clearAppBadge?.())?.catch(() => {})
  })
  const project = () => {
    const to = route()
    return to.screen === "project" ? to.directory : undefined
  }
  onMount(() => document.addEventListener("keydown", keys))
  return (
    <>
      <Show when={mustSignIn()}>
        <SignIn onDone={() => (isStarted() ? location.reload() : void refetch())} />
      </Show>
      <Connection />
      <div
        class="frame"
        data-screen={route().screen}
        data-panel={session() ? panelOf() : undefined}
        data-rail={isRail() ? "" : undefined}
        style={{ "--side": isRail() || listWidth() === undefined ? undefined : `${listWidth()}px` }}
      >
        <nav class="side" aria-label={words.sessions}>
          <List />
        </nav>
        <main>
          <ErrorBoundary fallback={(error) => <p class="empty" role="alert">{String(error)}</p>}>
            {/* A screen that was refused before the sign-in reads everything again after it. */}
            <Show when={isStarted() || !mustSignIn()}>
              <Switch fallback={<Overview />}>
                <Match when={route().screen === "needs"}>
                  <Needs />
                </Match>
                <Match when={project()}>{(directory) => <Overview directory={directory()} />}</Match>
                <Match when={route().screen === "settings"}>
                  <Settings />
                </Match>
                <Match when={route().screen === "new"}>
                  <New />
                </Match>
                <Match when={session()} keyed>
                  {(id) => <Session id={id} />}
                </Match>
              </Switch>
            </Show>
          </ErrorBoundary>
        </main>
        <Show when={session()}>{(id) => <Panel id={id()} />}</Show>
      </div>
      <Overlays />
      <PhoneTabs />
      <Live />
    </>
  )
}

// Tells a screen reader the state of the visible session, and news of the others.
function Live() {
  const text = createMemo(() => {
    const to = route()
    if (to.screen !== "session") return ""
    watch("list")
    watch(`status ${to.id}`)
    const title = world.sessions.get(to.id)?.info.title ?? ""
    return requestsOf(world, to.id).length > 0 || world.status.has(to.id) ? `${title}: ${words.state(rowState(world, to.id))}` : ""
  })
  return (
    <>
      <div class="hidden" role="status">
        {text()}
      </div>
      <div class="hidden elsewhere" role="status">
        {announcement()}
      </div>
    </>
  )
}

// A short interruption is not worth a word.
const QUIET_MS = 1_500

function Connection() {
  const state = createMemo(() => {
    watch("phase")
    watch("now")
    const phase = world.phase
    if (phase.kind === "refused") return phase.message
    if (phase.kind !== "waiting" || world.now - phase.since < QUIET_MS) return null
    return words.lastEvent(Math.round((world.now - phase.since) / 1_000))
  })
  return (
    <>
      <Show when={state()}>
        {(text) => (
          <div class="bar" role="alert">
            {text()}
            <Show when={world.phase.kind === "waiting"}>
              <button type="button" onClick={hurry}>
                {words.now}
              </button>
            </Show>
          </div>
        )}
      </Show>
      <Show when={isOutdated()}>
        <div class="bar">
          {words.newerPage}
          <button type="button" onClick={() => location.reload()}>
            {words.reload}
          </button>
        </div>
      </Show>
    </>
  )
}

function keys(event: KeyboardEvent) {
  if (!isKey(event, "create")) return
  event.preventDefault()
  if (route().screen !== "new") holdKeys(() => {})
  go("/new")
}
