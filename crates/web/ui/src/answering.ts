// Answers to requests that take more than one call.

import { call } from "./api.ts"
import type { Request } from "./core/world.ts"
import { say } from "./sending.ts"
import { answer, world } from "./store.ts"

// Allows several permissions once, one after the other, so that a failure stops at the request that it belongs to.
export async function allowAll(requests: Request[]) {
  for (const { id } of requests) await answer(id, "permission", { reply: "once" })
}

// Rejects a permission with a reason. The native loop hands it to the model in place of the tool's result. Agents that run
// in another program may have no such field, so they get the reason as a prompt of the root session.
export async function rejectBecause(request: Request, root: string, reason: string) {
  const isNative = await hasNativeAgent(request.sessionID)
  await answer(request.id, "permission", { reply: "reject", message: isNative ? reason : undefined })
  if (!isNative) say(root, reason)
}

async function hasNativeAgent(session: string): Promise<boolean> {
  const info = world.sessions.get(session)?.info
  if (!info?.agent) return false
  const { data } = await call("agents", { query: { directory: info.directory } }).catch(() => ({ data: [] }))
  const agent = data.find((it) => it.name === info.agent)
  return agent !== undefined && agent.external === undefined
}
