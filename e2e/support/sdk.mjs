// The two clients of OpenCode's SDK behind one set of names, so that a test can be run with both. Every entry is
// one call of the SDK, with the arguments in the form of that client.

import assert from "node:assert/strict"
import { createOpencodeClient as createV1 } from "@opencode-ai/sdk"
import { createOpencodeClient as createV2 } from "@opencode-ai/sdk/v2"

// `createOpencodeClient` of `@opencode-ai/sdk`.
export function v1(baton, options) {
  const client = createV1({ baseUrl: baton.url, ...options })
  const { session } = client
  return {
    client,
    create: (body) => session.create({ body }),
    list: (query) => session.list({ query }),
    get: (id) => session.get({ path: { id } }),
    update: (id, body) => session.update({ path: { id }, body }),
    remove: (id) => session.delete({ path: { id } }),
    children: (id) => session.children({ path: { id } }),
    todo: (id) => session.todo({ path: { id } }),
    fork: (id, body) => session.fork({ path: { id }, body }),
    abort: (id) => session.abort({ path: { id } }),
    status: () => session.status(),
    messages: (id, query) => session.messages({ path: { id }, query }),
    message: (id, messageID) => session.message({ path: { id, messageID } }),
    prompt: (id, body, options) => session.prompt({ path: { id }, body, ...options }),
    promptAsync: (id, body) => session.promptAsync({ path: { id }, body }),
    // This client has only the older form.
    permission: ({ id, sessionID }, response) =>
      client.postSessionIdPermissionsPermissionId({ path: { id: sessionID, permissionID: id }, body: { response } }),
    subscribe: (options) => client.event.subscribe(options),
    globalEvents: (options) => client.global.event(options),
    agents: () => client.app.agents(),
    config: () => client.config.get(),
    configProviders: () => client.config.providers(),
    providers: () => client.provider.list(),
    path: () => client.path.get(),
    projects: () => client.project.list(),
    project: () => client.project.current(),
  }
}

// `createOpencodeClient` of `@opencode-ai/sdk/v2`.
export function v2(baton, options) {
  const client = createV2({ baseUrl: baton.url, directory: baton.directory, ...options })
  const { session } = client
  return {
    client,
    create: (body) => session.create(body),
    list: (query) => session.list(query),
    get: (sessionID) => session.get({ sessionID }),
    update: (sessionID, body) => session.update({ sessionID, ...body }),
    remove: (sessionID) => session.delete({ sessionID }),
    children: (sessionID) => session.children({ sessionID }),
    todo: (sessionID) => session.todo({ sessionID }),
    fork: (sessionID, body) => session.fork({ sessionID, ...body }),
    abort: (sessionID) => session.abort({ sessionID }),
    status: () => session.status(),
    messages: (sessionID, query) => session.messages({ sessionID, ...query }),
    message: (sessionID, messageID) => session.message({ sessionID, messageID }),
    prompt: (sessionID, body, options) => session.prompt({ sessionID, ...extended(body) }, options),
    promptAsync: (sessionID, body) => session.promptAsync({ sessionID, ...extended(body) }),
    permission: ({ id: requestID }, reply) => client.permission.reply({ requestID, reply }),
    subscribe: (options) => client.event.subscribe({}, options),
    globalEvents: (options) => client.global.event(options),
    agents: () => client.app.agents(),
    config: () => client.config.get(),
    configProviders: () => client.config.providers(),
    providers: () => client.provider.list(),
    path: () => client.path.get(),
    projects: () => client.project.list(),
    project: () => client.project.current(),
  }
}

// The second client drops fields it does not know, unless they are marked. `delivery` is Baton's own.
function extended({ delivery, ...body }) {
  return delivery === undefined ? body : { ...body, $body_delivery: delivery }
}

// Both, with their names, for loops over tests.
export const clients = [
  ["v1", v1],
  ["v2", v2],
]

// The data of a call that must succeed.
export async function ok(call) {
  const { data, error, response } = await call
  assert.equal(error, undefined, `${response?.status} ${JSON.stringify(error)}`)
  return data
}

// The error of a call that must be refused with this status.
export async function refused(call, status) {
  const { data, error, response } = await call
  assert.equal(response?.status, status, `${JSON.stringify(error ?? data)}`)
  return error
}

// A prompt of one line to a scenario of the demo model.
export function ask(modelID, text = "hello", more = {}) {
  return { model: { providerID: "demo", modelID }, parts: [{ type: "text", text }], ...more }
}

// The text of a message.
export function textOf({ parts }) {
  return parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("")
}
