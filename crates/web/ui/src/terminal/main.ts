// The document of one terminal. It runs in a frame with a policy of its own, because xterm writes style elements.

import { FitAddon } from "@xterm/addon-fit"
import { Terminal } from "@xterm/xterm"
import "@xterm/xterm/css/xterm.css"
import { findAddresses, needsQuestion, readMark } from "../core/terminal.ts"
import { linkTarget, visible } from "../plain.ts"
import "../style/theme.css"
import "../style/preferences.css"
import "./frame.css"
import type { FrameWords, Look, Order, Report } from "./messages.ts"
import { confirmPaste } from "./paste.ts"

// Lines above the screen that can be scrolled to.
const SCROLLBACK = 5_000
// The most characters in one message to the server, which refuses more than 1 MiB.
const MAX_MESSAGE = 64 * 1024
// The key that moves the focus out of the terminal, which takes every other key.
const LEAVE = "F6"

const screen = document.querySelector<HTMLElement>("#screen")!
const address = document.querySelector<HTMLElement>("#address")!
const report = (message: Report) => parent.postMessage(message, location.origin)

const terminal = new Terminal({
  scrollback: SCROLLBACK,
  cursorBlink: false,
  fontSize: 13,
  fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
  // Colours of programs stay readable in every theme.
  minimumContrastRatio: 4.5,
  linkHandler: {
    activate: (_, target, { start, end }) => openLink(target, shownText(start, end.x)),
    hover: (_, target) => showAddress(target),
    leave: () => hideAddress(),
  },
})
const fit = new FitAddon()
terminal.loadAddon(fit)

// --- The socket ------------------------------------------------------------------------------------------------------

let socket: WebSocket | undefined
// UTF-16 units of output that have arrived.
let cursor = 0
// Answers of xterm to queries in old output must not reach the shell a second time.
let isReplaying = true

function connect(target: string, from: number) {
  socket?.close()
  const made = new WebSocket(target)
  made.binaryType = "arraybuffer"
  socket = made
  isReplaying = true
  // The server may have forgotten old output; then everything that it has is shown again.
  if (from === 0) terminal.reset()
  cursor = from
  made.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => socket === made && receive(data)
  made.onclose = ({ code }) => {
    if (socket !== made) return
    socket = undefined
    // The server closes normally only after the end of the program.
    report(code === 1000 ? { kind: "ended" } : { kind: "lost", cursor })
  }
}

function receive(data: string | ArrayBuffer) {
  if (typeof data === "string") {
    cursor += data.length
    return terminal.write(data)
  }
  const mark = readMark(data)
  if (mark === undefined) return
  cursor = mark
  // xterm parses later than it receives; the callback runs after the old output.
  terminal.write("", () => {
    isReplaying = false
    report({ kind: "connected" })
  })
}

terminal.onData((text) => {
  if (isReplaying || socket?.readyState !== WebSocket.OPEN) return
  for (let at = 0; at < text.length; at += MAX_MESSAGE) socket.send(text.slice(at, at + MAX_MESSAGE))
})
terminal.onBinary((text) => {
  if (!isReplaying && socket?.readyState === WebSocket.OPEN) socket.send(Uint8Array.from(text, (char) => char.charCodeAt(0)))
})

// --- Links -----------------------------------------------------------------------------------------------------------

const openLink = (target: string, text: string) => linkTarget(target) && report({ kind: "link", address: target, text })

// The text that a program shows as a link; of a link over several lines, its first one.
function shownText(start: { x: number; y: number }, end: number): string {
  return terminal.buffer.active.getLine(start.y - 1)?.translateToString(true, start.x - 1, end) ?? ""
}

// The real address, as the browser would open it: hosts outside of ASCII in punycode.
function showAddress(target: string) {
  const url = linkTarget(target)
  address.hidden = url === undefined
  address.textContent = url ? visible(url.href) : ""
}

function hideAddress() {
  address.hidden = true
}

terminal.registerLinkProvider({
  provideLinks(row, done) {
    const line = terminal.buffer.active.getLine(row - 1)?.translateToString(true) ?? ""
    const links = findAddresses(line).map((found) => ({
      text: found.address,
      range: { start: { x: found.from + 1, y: row }, end: { x: found.to, y: row } },
      activate: () => openLink(found.address, found.address),
      hover: () => showAddress(found.address),
      leave: hideAddress,
    }))
    done(links)
  },
})

// --- Looks and size --------------------------------------------------------------------------------------------------

let words: FrameWords | undefined

function colour(name: string): string {
  const probe = document.createElement("span")
  probe.style.color = `var(${name})`
  document.body.append(probe)
  const found = getComputedStyle(probe).color
  probe.remove()
  return found
}

function dress(look: Look, given: FrameWords) {
  words = given
  const root = document.documentElement
  root.lang = given.locale
  Object.assign(root.dataset, look.dataset)
  root.removeAttribute("style")
  for (const [name, value] of Object.entries(look.variables)) root.style.setProperty(name, value)
  terminal.options.screenReaderMode = look.isReadAloud
  terminal.textarea?.setAttribute("aria-label", given.screen)
  repaint()
}

function repaint() {
  const [background, foreground, accent, selection] = ["--sunken", "--text", "--accent", "--tint"].map(colour)
  terminal.options.theme = { background, foreground, cursor: accent, cursorAccent: background, selectionBackground: selection }
}

function resize() {
  // A hidden frame has no size.
  if (screen.clientWidth === 0 || screen.clientHeight === 0) return
  fit.fit()
}

terminal.onResize(({ rows, cols }) => report({ kind: "size", rows, cols }))
terminal.attachCustomKeyEventHandler((event) => {
  // With a selection, the browser's own copy gets the key; without one, the program does.
  if (event.ctrlKey && !event.shiftKey && event.key.toLowerCase() === "c" && terminal.hasSelection()) return false
  if (event.key !== LEAVE) return true
  event.preventDefault()
  if (event.type === "keydown") report({ kind: "leave" })
  return false
})

document.addEventListener(
  "paste",
  (event) => {
    const text = event.clipboardData?.getData("text/plain") ?? ""
    if (!words || !needsQuestion(text)) return
    event.preventDefault()
    event.stopImmediatePropagation()
    void confirmPaste(text, words).then((isWanted) => {
      if (isWanted) terminal.paste(text)
      terminal.focus()
    })
  },
  { capture: true },
)

function obey(order: Order) {
  if (order.kind === "open") connect(order.socket, order.cursor)
  if (order.kind === "look") dress(order.look, order.words)
  if (order.kind === "focus") terminal.focus()
}

// Only the page around the frame may give orders.
window.addEventListener("message", ({ data, origin, source }: MessageEvent<Order>) => {
  if (origin === location.origin && source === parent && parent !== window) obey(data)
})
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint)

terminal.open(screen)
new ResizeObserver(resize).observe(screen)
resize()
report({ kind: "ready" })
