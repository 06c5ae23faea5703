// The terminals of a session's directory: one tab each, and a frame for every tab that was opened.

import { For, Show, createEffect, createMemo, createResource, createSignal, on } from "solid-js"
import { call } from "../api.ts"
import { stored } from "../kept.ts"
import { oneLine } from "../plain.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { Confirm } from "./confirm.tsx"
import { Loaded } from "./loaded.tsx"
import { type Pty, TerminalFrame } from "./terminal-frame.tsx"

const [isReadAloud, setReadAloud] = stored("terminal-aloud", false)

export function TerminalPanel(props: { id: string }) {
  const directory = () => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info.directory)
  return <Show when={directory()} keyed>{(found) => <Terminals directory={found} />}</Show>
}

function Terminals(props: { directory: string }) {
  const [list, { refetch, mutate }] = createResource(() => call("terminals", { query: { directory: props.directory } }).then((it) => it.data))
  const [chosen, setChosen] = createSignal<string>()
  const [closing, setClosing] = createSignal<Pty>()
  const [error, setError] = createSignal("")
  const [opened, setOpened] = createSignal<string[]>([])
  createEffect(on(() => watch("terminals"), () => void refetch(), { defer: true }))
  const all = () => list.latest ?? []
  const shown = createMemo(() => all().find(({ id }) => id === chosen()) ?? all().at(-1))
  const ids = createMemo(() => all().map(({ id }) => id))
  createEffect(() => {
    const id = shown()?.id
    // A frame stays while its terminal exists, so that switching tabs keeps the place of its scroll bar.
    setOpened((before) => [...before.filter((it) => ids().includes(it)), ...(id && !before.includes(id) ? [id] : [])])
  })
  const attempt = async (work: () => Promise<unknown>) => {
    setError("")
    await work().catch((failure) => setError(failure instanceof Error ? failure.message : String(failure)))
  }
  const open = () =>
    attempt(async () => {
      const titles = all().map(({ title }) => title)
      let number = 1
      while (titles.includes(words.terminal.name(number))) number++
      const { data } = await call("openTerminal", { query: { directory: props.directory }, body: { title: words.terminal.name(number) } })
      mutate((before) => [...(before ?? []).filter(({ id }) => id !== data.id), data])
      setChosen(data.id)
    })
  const close = async ({ id }: Pty) => {
    // The frame goes first, so that it does not reconnect to a terminal that the server is removing.
    setOpened((before) => before.filter((it) => it !== id))
    try {
      await call("closeTerminal", { in: { ptyID: id }, query: { directory: props.directory } })
    } finally {
      await refetch()
    }
  }
  // A program that has ended has nothing to lose.
  const leave = (pty: Pty) => (pty.status === "running" ? setClosing(pty) : void attempt(() => close(pty)))
  return (
    <div class="terminals">
      <Loaded of={list} again={() => void refetch()}>
        {() => (
          <>
            <div class="terminal-bar">
              <ul class="terminal-tabs" aria-label={words.terminal.tabs}>
                <For each={ids()}>
                  {(id) => {
                    const pty = () => all().find((it) => it.id === id)
                    return <Show when={pty()}>{(it) => <Tab pty={it()} isShown={shown()?.id === id} onChoose={() => setChosen(id)} onClose={() => leave(it())} />}</Show>
                  }}
                </For>
              </ul>
              <button type="button" class="quiet" aria-label={words.terminal.open} title={words.terminal.open} onClick={() => void open()}>
                +
              </button>
              <button type="button" class="quiet" aria-pressed={isReadAloud()} onClick={() => setReadAloud(!isReadAloud())}>
                {words.terminal.readAloud}
              </button>
            </div>
            <Show when={error()}>
              <p class="error" role="alert">
                {error()}
              </p>
            </Show>
            <Show when={all().length === 0}>
              <div class="empty">
                <p>{words.terminal.none}</p>
                <button type="button" class="primary" onClick={() => void open()}>
                  {words.terminal.open}
                </button>
              </div>
            </Show>
            <For each={opened()}>
              {(id) => (
                <TerminalFrame
                  id={id}
                  directory={props.directory}
                  pty={all().find((it) => it.id === id)}
                  isShown={shown()?.id === id}
                  isReadAloud={isReadAloud()}
                  onChange={() => void refetch()}
                />
              )}
            </For>
          </>
        )}
      </Loaded>
      <Show when={closing()}>
        {(pty) => (
          <Confirm
            title={words.terminal.closeSure(oneLine(pty().title))}
            action={words.terminal.closeShort}
            onClose={() => setClosing(undefined)}
            onConfirm={() => close(pty())}
          >
            <p>{words.terminal.closeText}</p>
          </Confirm>
        )}
      </Show>
    </div>
  )
}

function Tab(props: { pty: Pty; isShown: boolean; onChoose: () => void; onClose: () => void }) {
  const title = () => oneLine(props.pty.title)
  return (
    <li data-ended={props.pty.status === "exited" ? "" : undefined}>
      <button type="button" class="quiet terminal-tab" aria-pressed={props.isShown} onClick={props.onChoose}>
        {title()}
      </button>
      <button type="button" class="quiet" aria-label={words.terminal.close(title())} onClick={props.onClose}>
        ✕
      </button>
    </li>
  )
}
