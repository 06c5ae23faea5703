// The lists of models and agents of a directory.

import { For, createResource } from "solid-js"
import { call } from "../api.ts"
import { oneLine } from "../plain.ts"
import type { Choice } from "../store.ts"
import { words } from "../words.ts"

export function ModelChoice(props: { directory?: string; value: string; onChoose: (value: string) => void }) {
  const [providers] = createResource(
    () => props.directory ?? "",
    (directory) => call("providers", { query: { directory: directory || undefined } }).then((it) => it.data),
  )
  const found = () => (providers.state === "ready" ? providers().providers : [])
  return (
    <select aria-label={words.model} onChange={(event) => props.onChoose(event.target.value)}>
      <option value="">{words.defaultModel}</option>
      <For each={found()}>
        {(provider) => (
          <optgroup label={provider.name}>
            <For each={Object.values(provider.models)}>
              {(model) => (
                <option value={`${provider.id}/${model.id}`} selected={props.value === `${provider.id}/${model.id}`}>
                  {model.name}
                </option>
              )}
            </For>
          </optgroup>
        )}
      </For>
    </select>
  )
}

export function chosen(value: string): Choice | undefined {
  const at = value.indexOf("/")
  return at > 0 ? { providerID: value.slice(0, at), modelID: value.slice(at + 1) } : undefined
}

// A list of the agents of a directory.
export function AgentChoice(props: { directory?: string; value: string; onChoose: (name: string) => void }) {
  const [agents] = createResource(
    () => props.directory ?? "",
    (directory) => call("agents", { query: { directory: directory || undefined } }).then((it) => it.data, () => []),
  )
  const found = () => (agents.latest ?? []).filter((agent) => agent.mode !== "subagent" && !agent.hidden)
  return (
    <select class="agent" aria-label={words.newPage.agent} onChange={(event) => props.onChoose(event.target.value)}>
      <option value="">{words.newPage.defaultAgent}</option>
      <For each={found()}>
        {(agent) => (
          <option value={agent.name} selected={props.value === agent.name}>
            {oneLine(agent.name)}
          </option>
        )}
      </For>
    </select>
  )
}
