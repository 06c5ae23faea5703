// The review of changes: the scope, the files, their diffs and the comments that become a prompt.

import { For, Show, createEffect, createMemo, createResource, createSignal, on } from "solid-js"
import { call } from "../api.ts"
import { type Entry, MAX_FILES, entries, patchOf } from "../core/changes.ts"
import { type Comment, place, reviewPrompt } from "../core/review.ts"
import { isBusy } from "../core/state.ts"
import { type Folder, type Leaf, treeRows } from "../core/tree.ts"
import type { FileDiff, Message } from "../core/wire.ts"
import { compose } from "../compose.ts"
import { oneLine, within } from "../plain.ts"
import { comments, dropComment, dropComments, isViewed, setViewed } from "../reviews.ts"
import { amend, route } from "../route.ts"
import { change, settings } from "../settings.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { Diffs } from "./diffs.tsx"
import { Loaded } from "./loaded.tsx"
import { Rows } from "./rows.tsx"

export const SCOPES = ["turn", "session", "tree", "branch"] as const
export type Scope = (typeof SCOPES)[number]

// Pages of messages that are read for the changes of a session.
const MAX_PAGES = 10
const PAGE = 100
// Lines around a change: as git shows them, and more.
const CONTEXT = 3
const MORE_CONTEXT = 20

// A longer tree begins closed and draws only the rows on the screen.
const MAX_SHOWN = 40
const TREE_ROW = 28

interface Wanted {
  session: string
  directory?: string
  scope: Scope
  turn?: string
  context: number
}

// Reads the diffs of the prompts of a session, page by page, oldest first.
async function ofSession(sessionID: string): Promise<FileDiff[]> {
  const found: FileDiff[][] = []
  let before: string | undefined
  for (let page = 0; page < MAX_PAGES; page++) {
    const { data, headers } = await call("messages", { in: { sessionID }, query: { limit: PAGE, before } })
    const diffs = data.flatMap(({ info }) => (info.role === "user" ? (info.summary?.diffs ?? []) : []))
    found.unshift(diffs)
    before = headers.get("x-next-cursor") ?? undefined
    if (!before) break
  }
  return found.flat()
}

async function read({ session, directory, scope, turn, context }: Wanted): Promise<Entry[]> {
  if (scope === "session") return entries(await ofSession(session))
  if (scope === "turn") {
    if (!turn) return []
    return entries((await call("diff", { in: { sessionID: session }, query: { messageID: turn } })).data)
  }
  const mode = scope === "tree" ? "git" : "branch"
  return entries((await call("vcsDiff", { query: { mode, context, directory } })).data)
}

export function Changes(props: { id: string }) {
  const [hasContext, setContext] = createSignal(false)
  const directory = createMemo(() => (watch(`session ${props.id}`), world.sessions.get(props.id)?.info.directory))
  const scope = () => (SCOPES.find((it) => it === route().query.scope) ?? "turn") as Scope
  // The last prompt, unless the address names one.
  const turn = createMemo(() => {
    watch(`messages ${props.id}`)
    const last = world.windows.get(props.id)?.entries.findLast((entry) => entry.info.role === "user")
    return route().query.turn ?? last?.info.id
  })
  const wanted = createMemo<Wanted>(
    () => ({ session: props.id, directory: directory(), scope: scope(), turn: turn(), context: hasContext() ? MORE_CONTEXT : CONTEXT }),
    undefined!,
    { equals: (before, now) => JSON.stringify(before) === JSON.stringify(now) },
  )
  const [found, { refetch }] = createResource(wanted, read)
  const busy = createMemo(() => (watch(`status ${props.id}`), isBusy(world, props.id)))
  createEffect(on(() => (watch(`diff ${props.id}`), busy()), () => void refetch(), { defer: true }))
  return (
    <div class="changes">
      <div class="panel-tools">
        <select aria-label={words.changes.scope} onChange={(event) => amend({ scope: event.target.value, turn: undefined })}>
          <For each={SCOPES}>
            {(it) => (
              <option value={it} selected={it === scope()}>
                {words.changes.scopes[it]}
              </option>
            )}
          </For>
        </select>
        <button type="button" class="quiet" aria-label={words.changes.refresh} title={words.changes.refresh} onClick={() => void refetch()}>
          ↻
        </button>
        <span class="space" />
        <button type="button" class="quiet" aria-pressed={settings().isSplit} onClick={() => change({ isSplit: !settings().isSplit })}>
          {words.changes.split}
        </button>
        <button
          type="button"
          class="quiet"
          aria-pressed={settings().ignoresSpace}
          onClick={() => change({ ignoresSpace: !settings().ignoresSpace })}
        >
          {words.changes.space}
        </button>
        <Show when={scope() === "tree" || scope() === "branch"}>
          <button type="button" class="quiet" aria-pressed={hasContext()} onClick={() => setContext(!hasContext())}>
            {words.changes.context}
          </button>
        </Show>
      </div>
      <Loaded of={found} again={() => void refetch()}>
        {(value) => (
          <Show when={value().length > 0} fallback={<p class="empty">{words.changes.none[scope()]}</p>}>
            <Review id={props.id} all={value()} canUndo={scope() === "tree"} directory={directory()} again={() => void refetch()} />
          </Show>
        )}
      </Loaded>
    </div>
  )
}

function Review(props: { id: string; all: Entry[]; canUndo: boolean; directory?: string; again: () => void }) {
  const [target, setTarget] = createSignal<{ file: string }>()
  const own = () => comments(props.id)
  return (
    <>
      <Files id={props.id} all={props.all} directory={props.directory} onOpen={(file) => setTarget({ file })} />
      <Diffs id={props.id} all={props.all} canUndo={props.canUndo} directory={props.directory} target={target()} again={props.again} />
      <Show when={own().length > 0}>
        <Collected id={props.id} own={own()} all={props.all} />
      </Show>
    </>
  )
}

function Files(props: { id: string; all: Entry[]; directory?: string; onOpen: (file: string) => void }) {
  const shown = () => props.all.slice(0, MAX_FILES)
  const sum = (pick: (entry: Entry) => number) => props.all.reduce((total, entry) => total + pick(entry), 0)
  const [closed, setClosed] = createSignal(new Set<string>())
  const rows = createMemo(() =>
    treeRows(shown().map((entry) => ({ path: within(entry.file, props.directory), value: entry })), closed()),
  )
  const viewed = () => shown().filter((entry) => isViewed(props.id, entry)).length
  const toggle = (path: string) => {
    const next = new Set(closed())
    if (!next.delete(path)) next.add(path)
    setClosed(next)
  }
  const [isOpen, setOpen] = createSignal(props.all.length <= MAX_SHOWN)
  const row = (it: ReturnType<typeof rows>[number]) => (
    <TreeRow id={props.id} row={it} isClosed={closed().has(it.path)} onToggle={() => toggle(it.path)} onOpen={props.onOpen} />
  )
  return (
    <details class="changed-files" open={isOpen()} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {words.changes.files(props.all.length)} <span class="plus">+{sum((entry) => entry.additions)}</span>{" "}
        <span class="minus">−{sum((entry) => entry.deletions)}</span>
        <span class="viewed-count">{words.changes.viewedOf(viewed(), shown().length)}</span>
      </summary>
      <Show when={isOpen()}>
        <Show
          when={rows().length > MAX_SHOWN}
          fallback={
            <ul class="tree">
              <For each={rows()}>{(it) => <li>{row(it)}</li>}</For>
            </ul>
          }
        >
          <Rows class="long-tree" rows={rows()} height={() => TREE_ROW} label={words.panel.names.files}>
            {row}
          </Rows>
        </Show>
      </Show>
      <Show when={props.all.length > MAX_FILES}>
        <p class="fate">{words.changes.leftOut(props.all.length - MAX_FILES)}</p>
      </Show>
    </details>
  )
}

function TreeRow(props: {
  id: string
  row: Leaf<Entry> | Folder
  isClosed: boolean
  onToggle: () => void
  onOpen: (file: string) => void
}) {
  const indent = () => ({ "padding-inline-start": `${props.row.depth * 14 + 6}px` })
  return (
    <Show
      when={props.row.kind === "file" && props.row}
      fallback={
        <button type="button" class="tree-row" style={indent()} aria-expanded={!props.isClosed} onClick={props.onToggle}>
          <span class="twist" aria-hidden="true" />
          <span class="name">{oneLine(props.row.name)}</span>
        </button>
      }
    >
      {(it) => (
        <div class="tree-row" style={indent()}>
          <span class="twist none" aria-hidden="true" />
          <button type="button" class="name" title={it().path} onClick={() => props.onOpen(it().value.file)}>
            {oneLine(it().name)}
          </button>
          <span class="status" data-status={it().value.status}>
            {words.changes.status(it().value.status)}
          </span>
          <span class="plus">+{it().value.additions}</span>
          <span class="minus">−{it().value.deletions}</span>
          <input
            type="checkbox"
            aria-label={words.changes.viewedFile(it().path)}
            title={words.changes.viewed}
            checked={isViewed(props.id, it().value)}
            onChange={(event) => setViewed(props.id, it().value, event.target.checked)}
          />
        </div>
      )}
    </Show>
  )
}

// The comments so far. Those whose lines are not in this diff are listed here, because the diff cannot show them.
function Collected(props: { id: string; own: Comment[]; all: Entry[] }) {
  const absent = () =>
    props.own.filter((comment) => {
      const entry = props.all.find((it) => it.file === comment.file)
      return place(comment, entry && patchOf(entry)) === "absent"
    })
  // Comments go only when the draft has them.
  const send = async () => {
    await compose(props.id, reviewPrompt(props.own, words.changes.wording))
    dropComments(props.id)
  }
  return (
    <footer class="collected">
      <Show when={absent().length > 0}>
        <ul>
          <For each={absent()}>
            {(comment) => (
              <li>
                <code>
                  {oneLine(comment.file)}:{comment.from}
                </code>{" "}
                {oneLine(comment.text)} <span class="fate">{words.changes.changed}</span>
                <button type="button" class="quiet" onClick={() => dropComment(props.id, comment.id)}>
                  {words.changes.remove}
                </button>
              </li>
            )}
          </For>
        </ul>
      </Show>
      <span>{words.changes.comments(props.own.length)}</span>
      <span class="space" />
      <button type="button" class="primary" onClick={() => void send()}>
        {words.changes.send}
      </button>
    </footer>
  )
}
