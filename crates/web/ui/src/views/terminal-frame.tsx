// One terminal in a frame. The page makes the calls; the frame gets the address of a socket, the looks and the words.

import { Show, createEffect, createSignal, onCleanup, onMount } from "solid-js"
import type { Operations } from "../../generated/server.ts"
import { call } from "../api.ts"
import { retryDelay } from "../core/terminal.ts"
import { linkTarget, otherHost, visible } from "../plain.ts"
import { ownVariables, themeAttributes } from "../settings.ts"
import type { Order, Report } from "../terminal/messages.ts"
import { words } from "../words.ts"
import { Confirm } from "./confirm.tsx"

export type Pty = Operations["GET /pty"]["answer"][number]

// A drag of the panel's edge becomes one call.
const RESIZE_MS = 100

export function TerminalFrame(props: {
  id: string
  directory: string
  pty: Pty | undefined
  isShown: boolean
  isReadAloud: boolean
  onChange: () => void
}) {
  const [isReady, setReady] = createSignal(false)
  const [isConnected, setConnected] = createSignal(false)
  const [link, setLink] = createSignal<URL>()
  let frame!: HTMLIFrameElement
  let failures = 0
  let retry: ReturnType<typeof setTimeout> | undefined
  let resizing: ReturnType<typeof setTimeout> | undefined
  const send = (order: Order) => frame.contentWindow?.postMessage(order, location.origin)
  const connect = async (cursor: number) => {
    try {
      // A terminal that is gone, for instance with its server, also leaves the list.
      if (!(await exists(props.id, props.directory))) return props.onChange()
      send({ kind: "open", socket: await socketOf(props.id, props.directory, cursor), cursor })
    } catch {
      again(cursor)
    }
  }
  const again = (cursor: number) => {
    setConnected(false)
    clearTimeout(retry)
    retry = setTimeout(() => void connect(cursor), retryDelay(failures++))
  }
  const resize = (rows: number, cols: number) => {
    clearTimeout(resizing)
    const size = { in: { ptyID: props.id }, query: { directory: props.directory }, body: { size: { rows, cols } } }
    resizing = setTimeout(() => void call("changeTerminal", size).catch(() => {}), RESIZE_MS)
  }
  const follow = (address: string, text: string) => {
    const url = linkTarget(address)
    if (!url) return
    if (otherHost(text, url)) setLink(url)
    else visit(url)
  }
  const hear = (report: Report) => {
    switch (report.kind) {
      case "ready":
        setReady(true)
        return void connect(0)
      case "connected":
        failures = 0
        return setConnected(true)
      case "lost":
        return again(report.cursor)
      case "ended":
        return props.onChange()
      case "size":
        return resize(report.rows, report.cols)
      case "link":
        return follow(report.address, report.text)
      case "leave":
        return document.querySelector<HTMLElement>('.terminal-tab[aria-pressed="true"]')?.focus()
    }
  }
  const listen = ({ data, origin, source }: MessageEvent<Report>) => {
    if (origin === location.origin && source === frame.contentWindow) hear(data)
  }
  onMount(() => window.addEventListener("message", listen))
  onCleanup(() => {
    window.removeEventListener("message", listen)
    clearTimeout(retry)
    clearTimeout(resizing)
  })
  createEffect(() => {
    if (!isReady()) return
    const { locale } = words
    const { screen, pasteTitle, pasteText, paste } = words.terminal
    const look = { dataset: themeAttributes(), variables: ownVariables(), isReadAloud: props.isReadAloud }
    send({ kind: "look", look, words: { locale, screen, pasteTitle, pasteText, paste, cancel: words.cancel } })
  })
  createEffect(() => {
    if (isConnected() && props.isShown) send({ kind: "focus" })
  })
  const exitCode = () => (props.pty?.status === "exited" ? (props.pty.exitCode ?? 0) : undefined)
  return (
    <div class="terminal" hidden={!props.isShown} data-connected={isConnected() ? "" : undefined}>
      <Show when={exitCode() !== undefined} fallback={<Show when={!isConnected()}>{<p class="terminal-note">{words.terminal.connecting}</p>}</Show>}>
        <p class="terminal-note" role="status">
          {words.terminal.ended(exitCode() ?? 0)}
        </p>
      </Show>
      <iframe ref={frame} src="./terminal.html" title={words.terminal.screen} />
      <Show when={link()}>
        {(url) => (
          <Confirm
            title={words.terminal.openLinkSure(url().hostname)}
            action={words.terminal.openLink}
            onClose={() => setLink(undefined)}
            onConfirm={async () => visit(url())}
          >
            <p>{words.terminal.openLinkText}</p>
            <p>
              <code>{visible(url().href)}</code>
            </p>
          </Confirm>
        )}
      </Show>
    </div>
  )
}

const visit = (url: URL) => void window.open(url.href, "_blank", "noopener,noreferrer")

async function exists(ptyID: string, directory: string): Promise<boolean> {
  const { data } = await call("terminals", { query: { directory } })
  return data.some(({ id }) => id === ptyID)
}

// The address of a terminal's socket, with a ticket that opens it once.
async function socketOf(ptyID: string, directory: string, cursor: number): Promise<string> {
  const { data } = await call("terminalTicket", { in: { ptyID }, query: { directory }, headers: { "x-opencode-ticket": "1" } })
  const query = new URLSearchParams({ directory, cursor: String(cursor), ticket: data.ticket })
  const url = new URL(`pty/${encodeURIComponent(ptyID)}/connect?${query}`, location.href)
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:"
  return url.href
}
