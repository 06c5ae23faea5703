// The messages of a session. The view follows new text at the end, and stays where the user reads.

import { Show, createEffect, createMemo, createSignal, on, onCleanup, onMount } from "solid-js"
import { shownEntries } from "../core/revert.ts"
import { isStarting, waitingBehind } from "../core/state.ts"
import type { Prompt } from "../core/world.ts"
import { isKey } from "../keys.ts"
import { setTarget, target } from "../overlay.ts"
import { onLeave, placeOf, setPlace } from "../places.ts"
import { oneLine } from "../plain.ts"
import { route } from "../route.ts"
import { discard, edit, sendAgain } from "../sending.ts"
import { loadAround, loadNewer, loadOlder, onRead, watch, world } from "../store.ts"
import { words } from "../words.ts"
import { MessageView } from "./message.tsx"
import { TurnEnd } from "./end.tsx"
import { part } from "./part.ts"
import { Virtual, type VirtualApi } from "./virtual.tsx"

// The first load does not need it.
const PromptMenu = part(() => import("./prompt-menu.tsx").then((it) => it.PromptMenu))

// Rows that are not messages.
const EARLIER = "earlier"
const GAP = "gap"
const END = "end"
// Reads of the page of one message.
const MAX_READS = 3
// Messages after the one that the user reads, in case that this one is deleted.
const MAX_LINES = 4
// Distance from the screen at which messages of a gap are loaded.
const GAP_MARGIN = "400px"
// Pixels above a message that a search shows.
const MARGIN = 120

export function Transcript(props: { id: string; onEnd: (isAtEnd: boolean) => void }) {
  const window = () => (watch(`messages ${props.id}`), world.windows.get(props.id))
  const pending = createMemo(() => {
    watch(`prompts ${props.id}`)
    return [...world.prompts.values()].filter((prompt) => prompt.sessionID === props.id && prompt.text + (prompt.files ?? []) !== "")
  })
  // Prompts that wait are shown above the composer.
  const messages = createMemo(() => {
    watch(`queue ${props.id}`)
    watch(`status ${props.id}`)
    if (isStarting(world, props.id)) watch("now")
    const waiting = new Set(waitingBehind(world, props.id).map(({ id }) => id))
    watch(`session ${props.id}`)
    const stored = shownEntries(window()?.entries ?? [], world.sessions.get(props.id)?.info.revert).map((entry) => entry.info.id)
    const known = new Set(stored)
    const own = pending().map((prompt) => prompt.id)
    return [...stored, ...own.filter((id) => !known.has(id))].filter((id) => !waiting.has(id))
  })
  // The end of a turn that is taken back says nothing about the messages that remain.
  const isReverted = () => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info.revert !== undefined)
  const isEmpty = () => messages().length === 0
  const keys = createMemo(() => {
    const all = messages()
    const at = all.indexOf(window()?.gap?.last ?? "") + 1
    const shown = at > 0 ? [...all.slice(0, at), GAP, ...all.slice(at)] : all
    return [...(window()?.older ? [EARLIER] : []), ...shown, END]
  })
  // Before the stream has stated its state, messages are only a first view that is read again.
  const isLoaded = createMemo(() => (watch("list"), world.isKnown && window()?.stale === false && !isEmpty()))
  const place = placeOf(props.id)
  const [isFollowing, setFollowing] = createSignal(!place?.key)
  // True until the place at which the user left the session is on the screen.
  const [isReturning, setReturning] = createSignal(Boolean(place?.key))
  createEffect(() => props.onEnd(isFollowing()))
  // The first message since the last visit, as soon as one has been read.
  const [fresh, setFresh] = createSignal<string>()
  createEffect(() => {
    const at = place?.last ? messages().indexOf(place.last) : -1
    if (at >= 0 && !fresh()) setFresh(messages()[at + 1])
  })
  let list!: VirtualApi
  let isLoading = false
  const older = async () => {
    if (isLoading || isReturning() || !window()?.older) return
    isLoading = true
    await loadOlder(props.id).catch(() => {})
    isLoading = false
  }
  const newer = async () => {
    if (isLoading) return
    isLoading = true
    await loadNewer(props.id).catch(() => {})
    isLoading = false
  }
  // Reads the page of a message, unless it is loaded or being read. Returns false if the message does not exist.
  let reading: { message: string; page: Promise<boolean> } | undefined
  const reach = async (message: string) => {
    // A new connection may overtake a read, whose messages then count for nothing.
    for (let read = 0; read < MAX_READS && !keys().includes(message); read++) {
      if (reading?.message !== message) reading = { message, page: loadAround(props.id, message).catch(() => false) }
      const isThere = await reading.page
      reading = undefined
      if (!isThere) return false
    }
    return keys().includes(message)
  }
  // Shows the place at which the user left the session, or the end if its message does not exist any more.
  const comeBack = async () => {
    if (!isReturning() || !place?.key) return
    const isThere = await reach(place.key)
    // A search may have shown another message meanwhile. Messages that are being read again come with another call.
    if (!isReturning() || (!isThere && !isLoaded())) return
    setReturning(false)
    if (isThere) list.toRow(place.key, place.delta)
    else list.toEnd()
  }
  // Shows the message that the address or a search names.
  const [isMissing, setMissing] = createSignal(false)
  const seek = async (message: string) => {
    const isThere = await reach(message)
    setMissing(!isThere)
    if (!isThere) return void comeBack()
    setReturning(false)
    setFollowing(false)
    list.toRow(message, MARGIN)
  }
  // The message of the address. Another panel beside the session does not name it again.
  const linked = createMemo(() => {
    const to = route()
    return to.screen === "session" && to.id === props.id ? to.message : undefined
  })
  const named = createMemo(() => {
    const [message, it] = [linked(), target()]
    if (it?.session === props.id) return it
    return message ? { session: props.id, message } : undefined
  })
  // A message is looked for once, not after each new connection.
  let sought: object | undefined
  createEffect(
    on([named, isLoaded], ([it, isReady]) => {
      if (!it) setMissing(false)
      else if (isReady && it !== sought) {
        sought = it
        queueMicrotask(() => void seek(it.message))
      }
    }),
  )
  // A place among messages that are known is shown at once, also while the server is away.
  createEffect(
    on([keys, isLoaded], ([now, isReady]) => {
      if (!isReturning() || named() || !(isReady || now.includes(place?.key ?? ""))) return
      queueMicrotask(() => void comeBack())
    }),
  )
  onCleanup(() => setTarget(undefined))
  // Only a message can be found again.
  const rowToKeep = (at: { key: string; delta: number } | null) => {
    const last = window()?.gap?.last
    if (at?.key === GAP) return last === undefined ? null : { key: last, delta: 0 }
    return at?.key === END ? null : at
  }
  // Shows the prompt above the upper edge, or the next one below it.
  const step = async (by: -1 | 1) => {
    const line = list.top()
    const prompts = () => messages().filter((id) => stored(id)?.info.role === "user")
    const at = (id: string) => messages().indexOf(id)
    // A prompt that the user has scrolled into is above its own upper edge.
    const isAbove = (id: string) => line !== null && (at(id) < at(line.key) || (id === line.key && line.delta < -1))
    if (by < 0 && window()?.older && !prompts().some(isAbove)) await older()
    const found = by < 0 ? prompts().findLast(isAbove) : prompts().find((id) => line !== null && at(id) > at(line.key))
    if (found) list.toRow(found)
    // The last prompts cannot reach the upper edge.
    const hasMoved = list.top()?.key !== line?.key || list.top()?.delta !== line?.delta
    if (by > 0 && !hasMoved) list.toEnd()
  }
  const stored = (id: string) => window()?.entries.findLast((entry) => entry.info.id === id)
  const pressed = (event: KeyboardEvent) => {
    const by = isKey(event, "previousPrompt") ? -1 : isKey(event, "nextPrompt") ? 1 : 0
    if (by === 0) return
    event.preventDefault()
    void step(by)
  }
  onMount(() => {
    document.addEventListener("keydown", pressed)
    onCleanup(() => document.removeEventListener("keydown", pressed))
  })
  // The line that must stay where it is when everything is read again, and the messages after it.
  const readLine = () => {
    const line = isReturning() ? place?.key : isFollowing() ? undefined : rowToKeep(list.place())?.key
    if (!line) return []
    const all = messages()
    return [line, ...all.slice(all.indexOf(line) + 1).slice(0, MAX_LINES)]
  }
  const save = () => {
    const at = isReturning() ? place : rowToKeep(list.place())
    setPlace(props.id, { key: at?.key ?? null, delta: at?.delta ?? 0, last: messages().at(-1) ?? null })
  }
  onMount(() => {
    const ends = [onLeave(save), onRead(props.id, readLine)]
    onCleanup(() => {
      for (const end of ends) end()
      save()
    })
  })
  // Messages that have come since the user left the end.
  const [left, setLeft] = createSignal<string>()
  const isNew = () => {
    const at = messages().indexOf(left() ?? "")
    return at < 0 ? 0 : messages().length - at - 1
  }
  const follow = (now: boolean) => {
    if (now === isFollowing()) return
    if (!now) setLeft(messages().at(-1))
    setFollowing(now)
  }
  return (
    <Virtual
      class={isReturning() && isLoaded() ? "transcript returning" : "transcript"}
      keys={keys()}
      fixed={EARLIER}
      isFollowing={isFollowing()}
      onFollow={follow}
      onStart={() => void older()}
      ref={(api) => (list = api)}
      after={
        <>
        <Show when={isMissing()}>
          <p class="missing" role="status">
            {words.messageGone}
          </p>
        </Show>
        <Show when={!isFollowing()}>
          <button type="button" class="newest" onClick={() => list.toEnd()}>
            {isNew() > 0 ? words.newMessages(isNew()) : words.newest}
          </button>
        </Show>
        </>
      }
    >
      {(key) => {
        if (key === EARLIER) {
          return (
            <button type="button" class="quiet older" onClick={() => void older()}>
              {words.earlier}
            </button>
          )
        }
        if (key === GAP) return <GapRow onNear={newer} />
        if (key === END) {
          return (
            <>
              <Show when={isEmpty()}>
                <p class="empty">{window()?.stale === false ? words.noMessages : words.loading}</p>
              </Show>
              <Show when={!isReverted()}>
                <TurnEnd id={props.id} />
              </Show>
            </>
          )
        }
        return (
          <>
            <Show when={fresh() === key}>
              <p class="fresh">{words.fresh}</p>
            </Show>
            <Row session={props.id} id={key} />
          </>
        )
      }}
    </Virtual>
  )
}

// Messages that a jump has left out. They are loaded when the user comes near.
function GapRow(props: { onNear: () => Promise<void> }) {
  let row!: HTMLButtonElement
  const load = async () => {
    await props.onNear()
    // The observer reports changes only: a row that is still near must be looked at again.
    observer.unobserve(row)
    if (row.isConnected) observer.observe(row)
  }
  const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && void load(), { rootMargin: GAP_MARGIN })
  onMount(() => observer.observe(row))
  onCleanup(() => observer.disconnect())
  return (
    <button ref={row} type="button" class="quiet older" onClick={() => void load()}>
      {words.between}
    </button>
  )
}

function Row(props: { session: string; id: string }) {
  const stored = () => world.windows.get(props.session)?.entries.findLast((entry) => entry.info.id === props.id)
  const isStored = createMemo(() => (watch(`messages ${props.session}`), stored() !== undefined))
  // A prompt of a user, not one by which the turn continues by itself.
  const isPrompt = createMemo(() => {
    watch(`message ${props.id}`)
    const info = stored()?.info
    return info?.role === "user" && info.continues === undefined
  })
  const prompt = () => (watch(`prompts ${props.session}`), world.prompts.get(props.id))
  return (
    <Show
      when={!isStored() && prompt()}
      fallback={
        <>
          <MessageView session={props.session} id={props.id} />
          <Show when={isPrompt()}>
            <PromptMenu session={props.session} id={props.id} />
          </Show>
        </>
      }
    >
      {(it) => <Pending prompt={it()} />}
    </Show>
  )
}

// A prompt that the server has not stored yet.
function Pending(props: { prompt: Prompt }) {
  const fate = () => {
    const { fate, error } = props.prompt
    if (fate === "failed") return `${words.failed}: ${error ?? ""}`
    return fate === "held" ? words.held : words.sending
  }
  return (
    <article class="message user" data-fate={props.prompt.fate}>
      <p class="text">{props.prompt.text}</p>
      <Show when={props.prompt.files?.length}>
        <p class="chip">{props.prompt.files!.map(oneLine).join(", ")}</p>
      </Show>
      <p class="fate">
        {fate()}
        <Show when={props.prompt.fate === "failed"}>
          <button type="button" class="quiet" onClick={() => void sendAgain(props.prompt.id)}>
            {words.tryAgain}
          </button>
        </Show>
        <Show when={props.prompt.fate === "failed" || props.prompt.fate === "held"}>
          <button type="button" class="quiet" onClick={() => void edit(props.prompt.id)}>
            {words.edit}
          </button>
          <button type="button" class="quiet" onClick={() => discard(props.prompt.id)}>
            {words.discard}
          </button>
        </Show>
      </p>
    </article>
  )
}
