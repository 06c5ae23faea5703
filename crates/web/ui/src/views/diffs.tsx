// The diffs of a review as one long list, of which only the rows on the screen exist.

import { For, Match, Show, Switch, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js"
import { call } from "../api.ts"
import {
  type DiffRow,
  type Draft,
  type Entry,
  MAX_LINE,
  PART_ROWS,
  diffRows,
  foldedAtFirst,
  hasHunks,
  patchOf,
} from "../core/changes.ts"
import type { Action } from "../core/chords.ts"
import { type Hunk, type Line, changedPieces, reversePatch } from "../core/patch.ts"
import { excerpt } from "../core/review.ts"
import { isKey } from "../keys.ts"
import { oneLine, visible, within } from "../plain.ts"
import { comments, isViewed, setViewed } from "../reviews.ts"
import { panelLink } from "../route.ts"
import { settings } from "../settings.ts"
import { Rows, type Scroller } from "./rows.tsx"
import { words } from "../words.ts"
import { CommentCard, Editor } from "./comment.tsx"
import { Confirm } from "./confirm.tsx"

const HEIGHTS = { file: 42, hunk: 28, line: 20, note: 40, comment: 96, editor: 150 }

interface Undo {
  title: string
  patch: string
}

export function Diffs(props: {
  id: string
  all: Entry[]
  canUndo: boolean
  directory?: string
  target?: { file: string }
  again: () => void
}) {
  const [folds, setFolds] = createSignal(new Map<string, boolean>())
  const [parts, setParts] = createSignal(new Map<string, number>())
  const [draft, setDraft] = createSignal<Draft>()
  const [undo, setUndo] = createSignal<Undo>()
  const [measured, setMeasured] = createSignal(new Map<DiffRow, number>())
  const first = createMemo(() => foldedAtFirst(props.all))
  const isFolded = (entry: Entry) => folds().get(entry.file) ?? (first().has(entry.file) || isViewed(props.id, entry))
  const rows = createMemo(() =>
    diffRows(
      props.all,
      {
        isSplit: settings().isSplit,
        ignoresSpace: settings().ignoresSpace,
        folded: new Set(props.all.filter(isFolded).map((entry) => entry.file)),
        parts: parts(),
      },
      comments(props.id),
      draft(),
    ),
  )
  // The list is as wide as its longest line.
  const width = createMemo(() => {
    const longest = rows().reduce((most, row) => {
      if (row.kind !== "line") return most
      return Math.max(most, row.row.old?.text.length ?? 0, row.row.now?.text.length ?? 0)
    }, 0)
    const columns = Math.min(longest, MAX_LINE) + 14
    return `${settings().isSplit ? columns * 2 : columns}ch`
  })
  const height = (row: DiffRow) => measured().get(row) ?? HEIGHTS[row.kind]
  const measure = (row: DiffRow) => (element: HTMLElement) => {
    const observer = new ResizeObserver(() => {
      const now = element.offsetHeight
      if (now > 0 && measured().get(row) !== now) setMeasured(new Map(measured()).set(row, now))
    })
    observer.observe(element)
    onCleanup(() => observer.disconnect())
  }
  let scroller: Scroller<DiffRow> | undefined
  const fold = (entry: Entry, isClosed: boolean) => setFolds(new Map(folds()).set(entry.file, isClosed))
  createEffect(
    on(
      () => props.target,
      (target) => {
        const entry = props.all.find((it) => it.file === target?.file)
        if (!entry) return
        if (isFolded(entry)) fold(entry, false)
        const row = rows().find((it) => it.kind === "file" && it.entry === entry)
        if (row) scroller?.show(row)
      },
    ),
  )
  const jump = (kind: "file" | "hunk", step: 1 | -1) => {
    const all = rows()
    const at = all.indexOf(scroller?.first() ?? all[0]!)
    const isTarget = (row: DiffRow, index: number) => row.kind === kind && (step > 0 ? index > at : index < at)
    const next = step > 0 ? all.find(isTarget) : all.findLast(isTarget)
    if (next) scroller?.show(next)
  }
  // The listener is on the list itself, so a letter does not reach an open request.
  const keys = (event: KeyboardEvent) => {
    const steps: [Action, () => void][] = [
      ["nextFile", () => jump("file", 1)],
      ["previousFile", () => jump("file", -1)],
      ["nextHunk", () => jump("hunk", 1)],
      ["previousHunk", () => jump("hunk", -1)],
      ["comment", () => commentOnFirst()],
    ]
    const step = steps.find(([action]) => isKey(event, action))?.[1]
    if (!step) return
    event.preventDefault()
    event.stopPropagation()
    step()
  }
  const begin = (entry: Entry, line: Line, isRange: boolean) => {
    const side = line.now === undefined ? "old" : "now"
    const number = line[side] ?? 0
    const known = draft()
    if (isRange && known?.file === entry.file && known.side === side) {
      setDraft({ ...known, from: Math.min(known.from, number), to: Math.max(known.to, number) })
    } else setDraft({ file: entry.file, side, from: number, to: number })
  }
  const commentOnFirst = () => {
    const all = rows()
    const row = all.slice(all.indexOf(scroller?.first() ?? all[0]!)).find((it) => it.kind === "line")
    const line = row?.kind === "line" ? (row.row.now ?? row.row.old) : undefined
    if (row && line) begin(row.entry, line, false)
  }
  const undoHunk = (entry: Entry, hunk: Hunk) =>
    setUndo({ title: words.changes.undoHunk(oneLine(entry.file)), patch: reversePatch(patchOf(entry), [hunk]) })
  const undoFile = (entry: Entry) =>
    setUndo({ title: words.changes.undoFile(oneLine(entry.file)), patch: reversePatch(patchOf(entry)) })
  return (
    <>
      <Rows
        class="diffs"
        rows={rows()}
        height={height}
        width={width()}
        label={words.changes.diff}
        scroller={(it) => (scroller = it)}
        onKeyDown={keys}
      >
        {(row) => (
          <Switch>
            <Match when={row.kind === "file"}>
              <FileHead
                id={props.id}
                entry={row.entry}
                directory={props.directory}
                isFolded={isFolded(row.entry)}
                onFold={() => fold(row.entry, !isFolded(row.entry))}
                onUndo={props.canUndo && hasHunks(row.entry) ? () => undoFile(row.entry) : undefined}
              />
            </Match>
            <Match when={row.kind === "hunk" && row}>
              {(it) => (
                <div class="hunk">
                  <span>
                    {words.changes.line(it().hunk.now)} {visible(it().hunk.about)}
                  </span>
                  <Show when={props.canUndo}>
                    <button type="button" class="quiet" onClick={() => undoHunk(row.entry, it().hunk)}>
                      {words.changes.undo}
                    </button>
                  </Show>
                </div>
              )}
            </Match>
            <Match when={row.kind === "line" && row}>
              {(it) => <LineRow row={it()} isSplit={settings().isSplit} draft={draft()} onComment={begin} />}
            </Match>
            <Match when={row.kind === "note" && row}>
              {(it) => (
                <div class="diff-note">
                  {words.changes.notes[it().note]}
                  <Show when={it().note === "more"}>
                    <button
                      type="button"
                      class="quiet"
                      onClick={() => setParts(new Map(parts()).set(row.entry.file, (parts().get(row.entry.file) ?? PART_ROWS) + PART_ROWS))}
                    >
                      {words.changes.showMore}
                    </button>
                  </Show>
                </div>
              )}
            </Match>
            <Match when={row.kind === "comment" && row}>
              {(it) => <CommentCard session={props.id} id={it().id} entry={row.entry} ref={measure(row)} />}
            </Match>
            <Match when={row.kind === "editor"}>
              <Editor
                session={props.id}
                draft={draft()!}
                lines={() => {
                  const it = draft()
                  return it ? excerpt(patchOf(row.entry), it.side, it.from, it.to) : []
                }}
                onClose={() => setDraft(undefined)}
                ref={measure(row)}
              />
            </Match>
          </Switch>
        )}
      </Rows>
      <Show when={undo()}>
        {(it) => (
          <Confirm
            title={it().title}
            action={words.changes.undo}
            onClose={() => setUndo(undefined)}
            onConfirm={async () => {
              await call("apply", { query: { directory: props.directory }, body: { patch: it().patch } })
              props.again()
            }}
          >
            <p>{words.changes.undoText}</p>
          </Confirm>
        )}
      </Show>
    </>
  )
}

function FileHead(props: {
  id: string
  entry: Entry
  directory?: string
  isFolded: boolean
  onFold: () => void
  onUndo?: () => void
}) {
  const path = () => within(props.entry.file, props.directory)
  const [isCopied, setCopied] = createSignal(false)
  const copy = async () => {
    await navigator.clipboard?.writeText(props.entry.patch ?? "")
    setCopied(true)
  }
  return (
    <div class="file-head">
      <button type="button" class="quiet fold" aria-expanded={!props.isFolded} aria-label={words.changes.fold(path())} onClick={props.onFold}>
        <span class="twist" aria-hidden="true" />
      </button>
      <a class="path" href={panelLink(props.id, "files", { file: path() })} title={words.changes.open}>
        <bdi>{visible(path())}</bdi>
      </a>
      <span class="plus">+{props.entry.additions}</span>
      <span class="minus">−{props.entry.deletions}</span>
      <span class="space" />
      <button type="button" class="quiet" onClick={() => void copy()}>
        <span class="glyph" classList={{ sheets: !isCopied() }} aria-hidden="true">
          {isCopied() ? "✓" : ""}
        </span>
        <span class="word">{isCopied() ? words.copied : words.changes.copyPatch}</span>
      </button>
      <Show when={props.onUndo}>
        {(run) => (
          <button type="button" class="quiet" onClick={() => run()()}>
            <span class="glyph" aria-hidden="true">
              ↶
            </span>
            <span class="word">{words.changes.undo}</span>
          </button>
        )}
      </Show>
      <label class="viewed">
        <input
          type="checkbox"
          checked={isViewed(props.id, props.entry)}
          onChange={(event) => setViewed(props.id, props.entry, event.target.checked)}
        />
        <span class="word">{words.changes.viewed}</span>
      </label>
    </div>
  )
}

type LineOf = Extract<DiffRow, { kind: "line" }>

function LineRow(props: {
  row: LineOf
  isSplit: boolean
  draft?: Draft
  onComment: (entry: Entry, line: Line, isRange: boolean) => void
}) {
  const side = (name: "old" | "now") => {
    const line = props.row.row[name]
    return (
      <div class="side-line" data-kind={line ? line.kind : "none"}>
        <LineNumber line={line} name={name} entry={props.row.entry} draft={props.draft} onComment={props.onComment} />
        <Source line={line} other={props.row.other === undefined ? undefined : name === "now" ? props.row.other : props.row.row.now?.text} />
      </div>
    )
  }
  const line = () => props.row.row.now ?? props.row.row.old
  return (
    <Show
      when={props.isSplit}
      fallback={
        <div class="diff-line" data-kind={line()?.kind}>
          <LineNumber line={props.row.row.old} name="old" entry={props.row.entry} draft={props.draft} onComment={props.onComment} />
          <LineNumber line={props.row.row.now} name="now" entry={props.row.entry} draft={props.draft} onComment={props.onComment} />
          <span class="sign" aria-hidden="true">
            {line()?.kind === "add" ? "+" : line()?.kind === "remove" ? "−" : ""}
          </span>
          <Source line={line()} other={props.row.other} />
        </div>
      }
    >
      <div class="diff-line split">
        {side("old")}
        {side("now")}
      </div>
    </Show>
  )
}

// A line number. A click begins a comment; with Shift it extends the lines of the comment that is being written.
function LineNumber(props: {
  line?: Line
  name: "old" | "now"
  entry: Entry
  draft?: Draft
  onComment: (entry: Entry, line: Line, isRange: boolean) => void
}) {
  const number = () => props.line?.[props.name]
  const isChosen = () => {
    const it = props.draft
    const at = number()
    return it !== undefined && at !== undefined && it.file === props.entry.file && it.side === props.name && at >= it.from && at <= it.to
  }
  return (
    <Show when={number() !== undefined && props.line} fallback={<span class="number" />}>
      {(line) => (
        <button
          type="button"
          class="number"
          tabindex="-1"
          aria-label={words.changes.comment(number()!)}
          aria-pressed={isChosen()}
          onClick={(event) => props.onComment(props.entry, line(), event.shiftKey)}
        >
          {number()}
        </button>
      )}
    </Show>
  )
}

const shown = (text: string) => visible(text.slice(0, MAX_LINE).replaceAll("\t", "    "))

function Source(props: { line?: Line; other?: string }) {
  const text = () => props.line?.text ?? ""
  return (
    <span class="source">
      <Show when={props.other !== undefined && text().length <= MAX_LINE} fallback={shown(text())}>
        <For each={changedPieces(text(), props.other!)}>
          {(piece) => (piece.isChanged ? <mark>{shown(piece.text)}</mark> : <>{shown(piece.text)}</>)}
        </For>
      </Show>
      <Show when={text().length > MAX_LINE}>
        <span class="fate"> {words.changes.cut(text().length - MAX_LINE)}</span>
      </Show>
    </span>
  )
}
