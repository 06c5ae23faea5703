// Markdown as nodes: the lexer's tokens become elements, and HTML in the text stays text.

import { Lexer, type Token, type Tokens, lexer } from "marked"
import { For, Index, type JSX, Match, Show, Switch, createMemo, createResource, createSignal } from "solid-js"
import { Blocks as Splitter } from "./core/blocks.ts"
import { grammarNamed } from "./core/runs.ts"
import { linkTarget, otherHost, visible } from "./plain.ts"
import { Runs } from "./views/source.tsx"
import { words } from "./words.ts"

// Deeper structures are shown as their source.
const MAX_DEPTH = 32
const MAX_ROWS = 1_000

function lex(text: string): Token[] {
  try {
    return lexer(text)
  } catch {
    return [{ type: "text", raw: text, text }]
  }
}

// The blocks of a text without their inline tokens, which each block gets when it is drawn.
function lexBlocks(text: string): Token[] {
  try {
    return new Lexer().blockTokens(text.replace(/\r\n?/g, "\n"))
  } catch {
    return [{ type: "text", raw: text, text }]
  }
}

// Blocks in one element. A text that grows changes only the last group, so neither the script nor the layout of a very
// long answer looks at the others.
const GROUP = 40

// A text. Blocks that have not changed keep their nodes, so an answer that grows costs only its last blocks.
export function Markdown(props: { text: string }) {
  const splitter = new Splitter(lexBlocks)
  const groups = createMemo<string[][]>((before) => {
    const blocks = splitter.split(props.text)
    return Array.from({ length: Math.ceil(blocks.length / GROUP) }, (_, at) => {
      const now = blocks.slice(at * GROUP, (at + 1) * GROUP)
      const known = before[at]
      return known?.length === now.length && known.every((raw, index) => raw === now[index]) ? known : now
    })
  }, [])
  return (
    <div class="markdown">
      <Index each={groups()}>
        {(group) => (
          <div class="blocks">
            <For each={group()}>{(raw) => <Blocks tokens={lex(raw)} depth={0} />}</For>
          </div>
        )}
      </Index>
    </div>
  )
}

function Blocks(props: { tokens: Token[]; depth: number }): JSX.Element {
  return <For each={props.tokens}>{(token) => <Block token={token} depth={props.depth} />}</For>
}

function Block(props: { token: Token; depth: number }): JSX.Element {
  const token = props.token
  if (props.depth > MAX_DEPTH) return <p>{token.raw}</p>
  const depth = props.depth + 1
  switch (token.type) {
    case "space":
    case "def":
      return null
    case "heading":
      return (
        <p class="heading" role="heading" aria-level={Math.min(6, (token as Tokens.Heading).depth + 2)}>
          <Inline tokens={token.tokens ?? []} depth={depth} />
        </p>
      )
    case "code":
      return <Code text={token.text} lang={(token as Tokens.Code).lang} isClosed={/\n[ ]*(`{3,}|~{3,})\s*$/.test(token.raw)} />
    case "blockquote":
      return (
        <blockquote>
          <Blocks tokens={token.tokens ?? []} depth={depth} />
        </blockquote>
      )
    case "list": {
      const list = token as Tokens.List
      const items = () => (
        <For each={list.items}>
          {(item) => (
            <li>
              <Blocks tokens={item.tokens} depth={depth} />
            </li>
          )}
        </For>
      )
      return list.ordered ? <ol start={Number(list.start) || 1}>{items()}</ol> : <ul>{items()}</ul>
    }
    case "checkbox":
      return <Box token={token as Tokens.Checkbox} />
    case "hr":
      return <hr />
    case "table":
      return <Table table={token as Tokens.Table} depth={depth} />
    case "paragraph":
      return (
        <p>
          <Inline tokens={token.tokens ?? []} depth={depth} />
        </p>
      )
    case "text":
      return token.tokens ? <Inline tokens={token.tokens} depth={depth} /> : <>{token.text}</>
    default:
      return <p>{token.raw}</p>
  }
}

function Box(props: { token: Tokens.Checkbox }) {
  return <input type="checkbox" checked={props.token.checked} disabled aria-label={props.token.raw} />
}

function Table(props: { table: Tokens.Table; depth: number }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <For each={props.table.header}>
              {(cell) => (
                <th>
                  <Inline tokens={cell.tokens} depth={props.depth} />
                </th>
              )}
            </For>
          </tr>
        </thead>
        <tbody>
          <For each={props.table.rows.slice(0, MAX_ROWS)}>
            {(row) => (
              <tr>
                <For each={row}>
                  {(cell) => (
                    <td>
                      <Inline tokens={cell.tokens} depth={props.depth} />
                    </td>
                  )}
                </For>
              </tr>
            )}
          </For>
        </tbody>
      </table>
    </div>
  )
}

function Code(props: { text: string; lang?: string; isClosed: boolean }) {
  // A block that is still being written stays plain, because each letter would highlight all of it again.
  const [runs] = createResource(
    () => (props.isClosed ? { grammar: grammarNamed(props.lang), text: props.text } : undefined),
    async ({ grammar, text }) => (grammar ? (await import("./highlight.ts")).highlight(grammar, text) : null),
  )
  const [isCopied, setCopied] = createSignal(false)
  const copy = async () => {
    await navigator.clipboard?.writeText(props.text)
    setCopied(true)
  }
  return (
    <figure class="code">
      <figcaption>
        <span>{props.lang}</span>
        <button type="button" class="quiet" onClick={() => void copy()}>
          {isCopied() ? words.copied : words.copy}
        </button>
      </figcaption>
      <pre tabindex="0">
        <Show when={runs.state === "ready" && runs()} fallback={props.text}>
          {(found) => <Runs runs={found()} />}
        </Show>
      </pre>
    </figure>
  )
}

function Inline(props: { tokens: Token[]; depth: number }): JSX.Element {
  return (
    <For each={props.tokens}>
      {(token) => {
        if (props.depth > MAX_DEPTH) return <>{token.raw}</>
        const tokens = (token as Tokens.Generic).tokens
        const inner = () => <Inline tokens={tokens ?? []} depth={props.depth + 1} />
        switch (token.type) {
          case "strong":
            return <strong>{inner()}</strong>
          case "em":
            return <em>{inner()}</em>
          case "del":
            return <del>{inner()}</del>
          case "codespan":
            return <code>{(token as Tokens.Codespan).text}</code>
          case "checkbox":
            return <Box token={token as Tokens.Checkbox} />
          case "br":
            return <br />
          case "link":
            return <Link href={(token as Tokens.Link).href} text={(token as Tokens.Link).text} />
          // An image of another host would tell that host that the page is read.
          case "image":
            return <Link href={(token as Tokens.Image).href} text={`🖼 ${(token as Tokens.Image).text}`} />
          case "text":
          case "escape":
            return tokens ? inner() : <>{(token as Tokens.Text).text}</>
          default:
            return <>{token.raw}</>
        }
      }}
    </For>
  )
}

function Link(props: { href: string; text: string }) {
  const target = () => linkTarget(props.href)
  return (
    <Switch fallback={<span>{visible(`${props.text} (${props.href})`)}</span>}>
      <Match when={target()}>
        {(url) => (
          <a href={url().href} target="_blank" rel="noopener noreferrer">
            {visible(props.text)}
            <Show when={otherHost(props.text, url())}>{(host) => <span class="host"> ({host()})</span>}</Show>
          </a>
        )}
      </Match>
    </Switch>
  )
}
