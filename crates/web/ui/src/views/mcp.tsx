// The MCP servers of a directory: their state, and a switch for the connection.

import { For, Show, createEffect, createMemo, createResource, createSignal, on } from "solid-js"
import { call } from "../api.ts"
import { roots } from "../core/state.ts"
import { oneLine } from "../plain.ts"
import { watch, world } from "../store.ts"
import { words } from "../words.ts"
import { Loaded } from "./loaded.tsx"
import { Problem, useCall } from "./server.tsx"

export function Mcp() {
  // Without a directory, the server answers for the one in which it was started.
  const [directory, setDirectory] = createSignal<string>()
  const known = createMemo(() => (watch("list"), [...new Set(roots(world).map((session) => session.directory))].sort()))
  const query = () => ({ directory: directory() })
  const [found, { refetch }] = createResource(query, (query) => call("mcp", { query }).then((it) => Object.entries(it.data)))
  createEffect(on(() => watch("mcp"), () => void refetch(), { defer: true }))
  // The servers that are being connected or disconnected.
  const [busy, setBusy] = createSignal<string[]>([])
  const [error, attempt] = useCall()
  const toggle = (name: string, isConnected: boolean) =>
    attempt(async () => {
      setBusy((names) => [...names, name])
      try {
        await call(isConnected ? "mcpDisconnect" : "mcpConnect", { in: { name }, query: query() })
      } finally {
        setBusy((names) => names.filter((other) => other !== name))
        await refetch()
      }
    })
  return (
    <>
      <p>{words.mcp.text}</p>
      <Show when={known().length > 0}>
        <label>
          {words.directory}{" "}
          <select onChange={(event) => setDirectory(event.target.value || undefined)}>
            <option value="">{words.mcp.here}</option>
            <For each={known()}>{(path) => <option value={path}>{oneLine(path)}</option>}</For>
          </select>
        </label>
      </Show>
      <Problem text={error()} />
      <Loaded of={found} again={() => void refetch()}>
        {(value) => (
          <ul class="settings-list mcp">
            <For each={value()} fallback={<li class="fate">{words.mcp.none}</li>}>
              {([name, it]) => (
                <li data-status={it.status}>
                  <span class="grow">
                    {oneLine(name)} <span class="fate">{words.mcp.status(it.status)}</span>
                    <Show when={"error" in it && it.error}>{(error) => <span class="error">{oneLine(String(error()))}</span>}</Show>
                  </span>
                  <button
                    type="button"
                    aria-label={it.status === "connected" ? words.mcp.disconnectFrom(oneLine(name)) : words.mcp.connectTo(oneLine(name))}
                    aria-disabled={busy().includes(name)}
                    onClick={() => busy().includes(name) || void toggle(name, it.status === "connected")}
                  >
                    {busy().includes(name) ? words.mcp.busy : it.status === "connected" ? words.mcp.disconnect : words.mcp.connect}
                  </button>
                </li>
              )}
            </For>
          </ul>
        )}
      </Loaded>
    </>
  )
}
