// Event streams, by hand and through the SDK, recorded on a tape.

import assert from "node:assert/strict"
import { Tape } from "./tape.mjs"

// Opens a stream without any SDK. Resolves when `server.connected` has arrived.
export async function listen(baton, { target = "/event", headers = {}, tape = new Tape() } = {}) {
  const controller = new AbortController()
  const response = await baton.fetch(target, { headers, signal: controller.signal })
  assert.equal(response.status, 200, `${target} should open`)
  const from = tape.frames.length
  const ended = pump(response, tape).catch((error) => {
    if (!controller.signal.aborted) return error
  })
  const connected = (event) => (event.payload ?? event).type === "server.connected"
  await tape.until(connected, "server.connected", { from })
  return {
    tape,
    response,
    // Resolves when the stream has ended: with an error if it broke, else with undefined.
    ended,
    close: () => (controller.abort(), ended),
  }
}

async function pump(response, tape) {
  const decoder = new TextDecoder()
  let buffer = ""
  for await (const chunk of response.body) {
    buffer += decoder.decode(chunk, { stream: true })
    const frames = buffer.split("\n\n")
    buffer = frames.pop()
    for (const frame of frames) {
      const fields = frame.split("\n").map((line) => /^([^:]*): ?(.*)$/s.exec(line)?.slice(1) ?? [line, ""])
      const data = fields.filter(([name]) => name === "data").map(([, value]) => value)
      const id = fields.find(([name]) => name === "id")?.[1]
      if (data.length) tape.push(JSON.parse(data.join("\n")), id)
    }
  }
}

// Checks a condition of the server now and after each event of the server, until it holds.
export async function eventually(baton, check, what) {
  const { tape, close } = await listen(baton, { target: "/global/event" })
  try {
    for (;;) {
      const from = tape.frames.length
      if (await check()) return
      await tape.until(() => true, what, { from })
    }
  } finally {
    await close()
  }
}

// Records the events of an SDK's `subscribe()`. The ids of frames come from `onSseEvent`, because the events lack them.
export async function record(subscribe, options = {}) {
  const tape = new Tape()
  const controller = new AbortController()
  const { stream } = await subscribe({
    signal: controller.signal,
    // The SDK reconnects only if a test requests it.
    sseMaxRetryAttempts: 1,
    ...options,
  })
  const ended = (async () => {
    for await (const event of stream) tape.push(event)
  })()
  await tape.until((event) => (event.payload ?? event).type === "server.connected", "server.connected")
  return { tape, ended, close: () => (controller.abort(), ended) }
}
