// Files of the session's project: tree, content with line links, search, and mentions for the prompt. Read only.

import { For, Match, Show, Switch, createEffect, createMemo, createResource, createSignal, on } from "solid-js"
import { call } from "../api.ts"
import { compose } from "../compose.ts"
import { MAX_LINE } from "../core/changes.ts"
import { grammarOf, linesOf } from "../core/runs.ts"
import { highlight } from "../highlight.ts"
import { oneLine, visible } from "../plain.ts"
import { amend, panelLink, route } from "../route.ts"
import { watch, world } from "../store.ts"
import { Rows, type Scroller } from "./rows.tsx"
import { words } from "../words.ts"
import { Runs } from "./source.tsx"
import { Loaded } from "./loaded.tsx"

interface Node {
  name: string
  path: string
  type: "file" | "directory"
  ignored: boolean
}

interface Content {
  type: "text" | "binary"
  content: string
}

interface Found {
  path: { text: string }
  lines: { text: string }
  line_number: number
}

// Matches of a search that are listed.
const MAX_FOUND = 500
const LINE_HEIGHT = 20
// A tree that is deeper than this is a loop of links.
const MAX_DEPTH = 32

export function Files(props: { id: string }) {
  const directory = createMemo(() => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info.directory))
  const [pattern, setPattern] = createSignal("")
  const file = () => route().query.file
  return (
    <div class="files">
      <form
        class="panel-tools"
        onSubmit={(event) => {
          event.preventDefault()
          setPattern(String(new FormData(event.currentTarget).get("pattern") ?? "").trim())
          amend({ file: undefined, line: undefined })
        }}
      >
        <Show when={file()}>
          <button type="button" class="quiet" onClick={() => amend({ file: undefined, line: undefined })}>
            ‹ {words.files.all}
          </button>
        </Show>
        <input
          type="search"
          name="pattern"
          placeholder={words.files.search}
          aria-label={words.files.search}
          onInput={(event) => event.target.value === "" && setPattern("")}
        />
      </form>
      <Show when={directory()}>
        {(place) => (
          <Switch fallback={<Tree id={props.id} directory={place()} />}>
            <Match when={file()}>{(path) => <FileView id={props.id} directory={place()} path={path()} />}</Match>
            <Match when={pattern()}>{(text) => <Search id={props.id} directory={place()} pattern={text()} />}</Match>
          </Switch>
        )}
      </Show>
    </div>
  )
}

const list = (directory: string, path: string) => call("files", { query: { directory, path } }).then((it) => it.data)

function Tree(props: { id: string; directory: string }) {
  const [changed] = createResource(
    () => props.directory,
    (directory) => call("fileStatus", { query: { directory } }).then((it) => it.data),
  )
  const marks = createMemo(() => new Map(changed.state === "ready" ? changed().map((it) => [it.path, it.status]) : []))
  return (
    <div class="file-tree">
      <Branch id={props.id} directory={props.directory} path="." depth={0} marks={marks()} />
    </div>
  )
}

interface BranchProps {
  id: string
  directory: string
  path: string
  depth: number
  marks: Map<string, string>
}

function Branch(props: BranchProps) {
  const [nodes, { refetch }] = createResource(() => list(props.directory, props.path))
  return (
    <Loaded of={nodes} again={() => void refetch()}>
      {(value) => (
        <Show when={value().length > 0} fallback={<p class="fate">{words.files.empty}</p>}>
          <ul class="tree">
            <For each={value()}>{(node) => <Leaf {...props} node={node} />}</For>
          </ul>
        </Show>
      )}
    </Loaded>
  )
}

function Leaf(props: BranchProps & { node: Node }) {
  const [isOpen, setOpen] = createSignal(false)
  const indent = () => ({ "padding-inline-start": `${props.depth * 14}px` })
  const hasChanges = () => [...props.marks.keys()].some((path) => path.startsWith(`${props.node.path}/`))
  return (
    <li classList={{ ignored: props.node.ignored }}>
      <Show
        when={props.node.type === "directory"}
        fallback={
          <a class="tree-row" style={indent()} href={panelLink(props.id, "files", { file: props.node.path })}>
            <span class="twist none" aria-hidden="true" />
            <span class="name">{oneLine(props.node.name)}</span>
            <Show when={props.marks.get(props.node.path)}>
              {(status) => (
                <span class="status" data-status={status()}>
                  {words.changes.status(status())}
                </span>
              )}
            </Show>
          </a>
        }
      >
        <button type="button" class="tree-row" style={indent()} aria-expanded={isOpen()} onClick={() => setOpen(!isOpen())}>
          <span class="twist" aria-hidden="true" />
          <span class="name">{oneLine(props.node.name)}</span>
          <Show when={hasChanges()}>
            <span class="status" data-status="modified">
              •
            </span>
          </Show>
        </button>
        <Show when={isOpen() && props.depth < MAX_DEPTH}>
          <Branch id={props.id} directory={props.directory} path={props.node.path} depth={props.depth + 1} marks={props.marks} />
        </Show>
      </Show>
    </li>
  )
}

function Search(props: { id: string; directory: string; pattern: string }) {
  const [found, { refetch }] = createResource(
    () => ({ pattern: props.pattern, directory: props.directory }),
    (query) => call("find", { query }).then((it) => it.data),
  )
  return (
    <Loaded of={found} again={() => void refetch()}>
      {(value) => (
        <Show when={value().length > 0} fallback={<p class="empty">{words.files.nothing}</p>}>
          <ul class="matches">
            <For each={value().slice(0, MAX_FOUND)}>
              {(match) => (
                <li>
                  <a href={panelLink(props.id, "files", { file: match.path.text, line: String(match.line_number) })}>
                    <span class="place">
                      {visible(match.path.text)}:{match.line_number}
                    </span>
                    <code>{visible(match.lines.text.trim().slice(0, MAX_LINE))}</code>
                  </a>
                </li>
              )}
            </For>
          </ul>
        </Show>
      )}
    </Loaded>
  )
}

function FileView(props: { id: string; directory: string; path: string }) {
  const [content, { refetch }] = createResource(
    () => ({ directory: props.directory, path: props.path }),
    (query) => call("content", { query }).then((it) => it.data),
  )
  return (
    <div class="file-view">
      <Loaded of={content} again={() => void refetch()}>
        {(value) => (
          <Show when={value().type === "text"} fallback={<p class="empty">{words.changes.notes.binary}</p>}>
            <Lines id={props.id} path={props.path} text={value().content} />
          </Show>
        )}
      </Loaded>
    </div>
  )
}

interface Numbered {
  number: number
  text: string
}

// The lines that the address names, as `12` or `12-20`.
export function parseLines(text: string | undefined): [number, number] | undefined {
  const found = /^(\d+)(?:-(\d+))?$/.exec(text ?? "")
  if (!found) return undefined
  const [from, to] = [Number(found[1]), Number(found[2] ?? found[1])]
  return from <= to ? [from, to] : [to, from]
}

function Lines(props: { id: string; path: string; text: string }) {
  const rows = createMemo<Numbered[]>(() =>
    props.text
      .replace(/\n$/, "")
      .split("\n")
      .map((text, at) => ({ number: at + 1, text })),
  )
  const [coloured] = createResource(
    () => ({ grammar: grammarOf(props.path), text: props.text }),
    async ({ grammar, text }) => {
      const runs = grammar ? await highlight(grammar, text) : null
      return runs ? linesOf(runs) : null
    },
  )
  // Hidden characters and long lines are shown as plain text, which makes them visible.
  const runs = (row: Numbered) => {
    const isPlain = row.text.length > MAX_LINE || visible(row.text) !== row.text
    return isPlain || coloured.state !== "ready" ? undefined : coloured()?.[row.number - 1]
  }
  const width = createMemo(() => `${Math.min(MAX_LINE, rows().reduce((most, row) => Math.max(most, row.text.length), 0)) + 10}ch`)
  const chosen = () => parseLines(route().query.line)
  const isChosen = (row: Numbered) => {
    const it = chosen()
    return it !== undefined && row.number >= it[0] && row.number <= it[1]
  }
  let scroller: Scroller<Numbered> | undefined
  createEffect(
    on(rows, () => {
      const row = rows()[(chosen()?.[0] ?? 1) - 4]
      if (row) queueMicrotask(() => scroller?.show(row))
    }),
  )
  const choose = (number: number, isRange: boolean) => {
    const first = chosen()?.[0]
    const line = isRange && first !== undefined ? `${Math.min(first, number)}-${Math.max(first, number)}` : `${number}`
    amend({ line })
  }
  const mention = () => {
    const line = route().query.line
    void compose(props.id, `\`${props.path}${line ? `:${line}` : ""}\` `)
  }
  return (
    <>
      <div class="file-head">
        <span class="path" title={props.path}>
          <bdi>{visible(props.path)}</bdi>
        </span>
        <span class="space" />
        <span class="fate">{words.files.lines(rows().length)}</span>
        <button type="button" class="quiet" onClick={mention}>
          {words.files.mention}
        </button>
      </div>
      <Rows class="source-lines" rows={rows()} height={() => LINE_HEIGHT} width={width()} label={props.path} scroller={(it) => (scroller = it)}>
        {(row) => (
          <div class="source-line" data-chosen={isChosen(row)}>
            <button
              type="button"
              class="number"
              tabindex="-1"
              aria-label={words.files.line(row.number)}
              onClick={(event) => choose(row.number, event.shiftKey)}
            >
              {row.number}
            </button>
            <span class="source">
              <Show when={runs(row)} fallback={visible(row.text.slice(0, MAX_LINE).replaceAll("\t", "    "))}>
                {(found) => <Runs runs={found()} />}
              </Show>
            </span>
          </div>
        )}
      </Rows>
    </>
  )
}
