// The list under the cursor of the composer: files, agents and resources after `@`, commands after `/`.
//
// The text box is a combobox only while the list is open, so that a screen reader announces a plain text box otherwise.

import { For, Show, createEffect, createMemo, createResource, createSignal, on, onCleanup } from "solid-js"
import { call } from "../api.ts"
import { type Mention, type Word, matching, replaceWord, wordAt } from "../core/complete.ts"
import { oneLine } from "../plain.ts"
import { words } from "../words.ts"

interface Option {
  id: string
  kind: keyof typeof words.completion.kinds
  name: string
  detail?: string
  mention?: Mention
}

// Entries of the list, and files that the server is asked for.
const MAX_OPTIONS = 12
const MAX_FILES = 20
// Pause in typing before the server is asked for files.
const PAUSE_MS = 120
// Commands of the page itself; every other one comes from the server.
const OWN_COMMANDS = ["compact"] as const

const LIST = "completion"
const optionId = (at: number) => `${LIST}-${at}`

type Completion = ReturnType<typeof createCompletion>

export function createCompletion(given: {
  directory: () => string | undefined
  text: () => string
  box: () => HTMLTextAreaElement
  onChoose: (text: string, cursor: number, mention?: Mention) => void
}) {
  const [word, setWord] = createSignal<Word>()
  const [at, setAt] = createSignal(0)
  const sign = () => word()?.sign
  const [settled, setSettled] = createSignal<string>()
  createEffect(() => {
    const query = sign() === "@" ? word()!.query : undefined
    const timer = setTimeout(() => setSettled(query), PAUSE_MS)
    onCleanup(() => clearTimeout(timer))
  })
  const query = () => ({ query: { directory: given.directory() } })
  const isNeeded = createMemo((was: boolean) => was || given.text().trimStart().startsWith("/"), false)
  const [commands] = createResource(isNeeded, () => call("commands", query()).then((it) => it.data))
  const isMentioning = createMemo((was: boolean) => was || sign() === "@", false)
  const [agents] = createResource(isMentioning, () => call("agents", query()).then((it) => it.data, () => []))
  const [resources] = createResource(isMentioning, () => call("resources", query()).then((it) => Object.values(it.data), () => []))
  const [files] = createResource(
    () => (settled() === undefined ? undefined : { query: settled()!, limit: MAX_FILES, directory: given.directory() }),
    (query) => call("findFile", { query }).then((it) => it.data, () => []),
  )
  const known = () => (commands.state === "ready" ? commands() : [])
  const candidates = (): Option[] => {
    const it = word()
    if (!it) return []
    if (it.sign === "/") {
      const own = OWN_COMMANDS.map((name) => ({ name, description: words.completion.own[name] }))
      const all = [...known(), ...own.filter(({ name }) => !known().some((other) => other.name === name))]
      const found = matching(all, ({ name }) => name, it.query, MAX_OPTIONS)
      return found.map(({ name, description }) => ({ id: `/${name}`, kind: "command", name: `/${name}`, detail: description }))
    }
    return [...mentions(it.query, agents.latest ?? [], resources.latest ?? []), ...named(files.latest ?? [])].slice(0, MAX_OPTIONS)
  }
  // An entry that stays keeps its element: a click is lost if its element is replaced between press and release.
  const options = createMemo(
    (before: Option[]) => candidates().map((option) => before.find(({ id, detail }) => id === option.id && detail === option.detail) ?? option),
    [],
  )
  const isOpen = () => options().length > 0
  createEffect(on([() => word()?.from, () => word()?.query], () => setAt(0)))
  // Later answers may bring fewer entries than there were.
  const current = () => Math.min(at(), options().length - 1)
  const close = () => void setWord(undefined)
  const choose = (option: Option | undefined) => {
    const it = word()
    if (!it || !option) return
    const { text, cursor } = replaceWord(given.text(), it, option.mention?.token ?? option.name)
    close()
    given.onChoose(text, cursor, option.mention)
  }
  const move = (step: number) => {
    setAt((current() + step + options().length) % options().length)
    document.getElementById(optionId(current()))?.scrollIntoView({ block: "nearest" })
  }
  // Returns true if the key was meant for the list.
  const keys = (event: KeyboardEvent): boolean => {
    if (!isOpen() || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return false
    const option = options()[current()]
    if (event.key === "ArrowDown") move(1)
    else if (event.key === "ArrowUp") move(-1)
    else if (event.key === "Escape") close()
    else if (event.key === "Tab" && !event.shiftKey) choose(option)
    else if (event.key === "Enter" && !event.shiftKey) {
      // A command that is typed to its end needs no second key.
      if (word()?.sign === "/" && option?.name === given.text().trim()) return close(), false
      choose(option)
    } else return false
    event.preventDefault()
    return true
  }
  return {
    isOpen,
    options,
    current,
    choose,
    close,
    keys,
    setAt,
    // Looks at the cursor again, after a key or a click.
    look: (isComposing = false) => {
      const { selectionStart, selectionEnd, value } = given.box()
      setWord(isComposing || selectionStart !== selectionEnd ? undefined : wordAt(value, selectionStart))
    },
    // Names of the server's commands; undefined until they are read.
    commandNames: () => (commands.state === "ready" ? commands().map(({ name }) => name) : undefined),
    commandError: () => (commands.state === "errored" ? String(commands.error?.message ?? commands.error) : ""),
    // Attributes of the text box.
    combobox: () =>
      isOpen()
        ? ({
            role: "combobox",
            "aria-autocomplete": "list",
            "aria-haspopup": "listbox",
            "aria-expanded": "true",
            "aria-controls": LIST,
            "aria-activedescendant": optionId(current()),
          } as const)
        : {},
  }
}

type Agents = { name: string; mode: string; hidden?: boolean; description?: string }[]
type Resources = { name: string; uri: string; client: string; description?: string; mimeType?: string }[]

// Only subagents can be given a task by a mention.
function mentions(query: string, agents: Agents, resources: Resources): Option[] {
  const subagents = agents.filter((agent) => agent.mode !== "primary" && !agent.hidden)
  const found = matching(subagents, ({ name }) => name, query, MAX_OPTIONS / 3).map(
    ({ name, description }): Option => ({
      id: `agent ${name}`,
      kind: "agent",
      name: `@${name}`,
      detail: description,
      mention: { kind: "agent", token: `@${name}`, name },
    }),
  )
  const offered = matching(resources, ({ name }) => name, query, MAX_OPTIONS / 3).map(
    ({ name, uri, client, mimeType }): Option => ({
      id: `resource ${client} ${uri}`,
      kind: "resource",
      name: `@${name}`,
      detail: `${client} · ${uri}`,
      mention: { kind: "resource", token: `@${name}`, name, server: client, uri, mime: mimeType },
    }),
  )
  return [...found, ...offered]
}

const named = (files: string[]): Option[] =>
  files.map((path) => ({
    id: `file ${path}`,
    kind: path.endsWith("/") ? "folder" : "file",
    name: path,
    mention: { kind: "file", token: `@${path}`, path },
  }))

export function CompletionList(props: { of: Completion }) {
  return (
    <Show when={props.of.isOpen()}>
      <ul class="completion" role="listbox" id={LIST} aria-label={words.completion.title}>
        <For each={props.of.options()}>
          {(option, index) => (
            <li
              role="option"
              id={optionId(index())}
              aria-selected={index() === props.of.current()}
              // The focus stays in the text.
              onPointerDown={(event) => event.preventDefault()}
              onPointerMove={() => props.of.setAt(index())}
              onClick={() => props.of.choose(option)}
            >
              <span class="name">{oneLine(option.name)}</span>
              <span class="detail">{oneLine(option.detail ?? "")}</span>
              <span class="kind">{words.completion.kinds[option.kind]}</span>
            </li>
          )}
        </For>
      </ul>
    </Show>
  )
}
