// The review of changes: the scope, the files, their diffs and the comments that become a prompt.

import { For, Show, createMemo, createSignal } from "solid-js"
import { SCOPES, type Source } from "../changes.ts"
import { type Entry, MAX_FILES, entries, patchOf } from "../core/changes.ts"
import { type Comment, place, reviewPrompt } from "../core/review.ts"
import { type Folder, type Leaf, treeRows } from "../core/tree.ts"
import type { FileDiff } from "../core/wire.ts"
import { compose } from "../compose.ts"
import { oneLine, within } from "../plain.ts"
import { comments, dropComment, dropComments, isViewed, setViewed } from "../reviews.ts"
import { amend } from "../route.ts"
import { change, settings } from "../settings.ts"
import { words } from "../words.ts"
import { Diffs } from "./diffs.tsx"
import { Loaded } from "./loaded.tsx"
import { Rows } from "./rows.tsx"

// A longer tree begins closed and draws only the rows on the screen.
const MAX_SHOWN = 40
const TREE_ROW = 28

export function Changes(props: { id: string; source: Source }) {
  const { scope, directory, found, refetch, hasContext, setContext } = props.source
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
        <button type="button" class="quiet" aria-label={words.changes.refresh} title={words.changes.refresh} onClick={refetch}>
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
      <Loaded of={found} again={refetch}>
        {(value) => (
          <Show when={value().length > 0} fallback={<p class="empty">{words.changes.none[scope()]}</p>}>
            <Review id={props.id} diffs={value()} canUndo={scope() === "tree"} directory={directory()} again={refetch} />
          </Show>
        )}
      </Loaded>
    </div>
  )
}

function Review(props: { id: string; diffs: FileDiff[]; canUndo: boolean; directory?: string; again: () => void }) {
  const all = createMemo(() => entries(props.diffs))
  const [target, setTarget] = createSignal<{ file: string }>()
  const own = () => comments(props.id)
  return (
    <>
      <Files id={props.id} all={all()} directory={props.directory} onOpen={(file) => setTarget({ file })} />
      <Diffs id={props.id} all={all()} canUndo={props.canUndo} directory={props.directory} target={target()} again={props.again} />
      <Show when={own().length > 0}>
        <Collected id={props.id} own={own()} all={all()} />
      </Show>
    </>
  )
}

function Files(props: { id: string; all: Entry[]; directory?: string; onOpen: (file: string) => void }) {
  const shown = () => props.all.slice(0, MAX_FILES)
  const sum = (pick: (entry: Entry) => number) => props.all.reduce((total, entry) => total + pick(entry), 0)
  const viewed = () => shown().filter((entry) => isViewed(props.id, entry)).length
  const [isOpen, setOpen] = createSignal(props.all.length <= MAX_SHOWN)
  return (
    <details class="changed-files" open={isOpen()} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {words.changes.files(props.all.length)} <span class="plus">+{sum((entry) => entry.additions)}</span>{" "}
        <span class="minus">−{sum((entry) => entry.deletions)}</span>
        <span class="viewed-count">{words.changes.viewedOf(viewed(), shown().length)}</span>
      </summary>
      <Show when={isOpen()}>
        <Tree id={props.id} shown={shown()} directory={props.directory} onOpen={props.onOpen} />
      </Show>
      <Show when={props.all.length > MAX_FILES}>
        <p class="fate">{words.changes.leftOut(props.all.length - MAX_FILES)}</p>
      </Show>
    </details>
  )
}

function Tree(props: { id: string; shown: Entry[]; directory?: string; onOpen: (file: string) => void }) {
  const [closed, setClosed] = createSignal(new Set<string>())
  const rows = createMemo(() =>
    treeRows(props.shown.map((entry) => ({ path: within(entry.file, props.directory), value: entry })), closed()),
  )
  const toggle = (path: string) => {
    const next = new Set(closed())
    if (!next.delete(path)) next.add(path)
    setClosed(next)
  }
  const row = (it: ReturnType<typeof rows>[number]) => (
    <TreeRow id={props.id} row={it} isClosed={closed().has(it.path)} onToggle={() => toggle(it.path)} onOpen={props.onOpen} />
  )
  return (
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
