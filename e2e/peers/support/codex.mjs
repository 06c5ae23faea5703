// A world with the real Codex, which calls a scripted model.

import assert from "node:assert/strict"
import { mkdir, symlink, writeFile } from "node:fs/promises"
import path from "node:path"
import { World } from "../../support/server.mjs"
import { LIMITS } from "./agent.mjs"
import { requireSealed } from "./peers.mjs"

// The directory in which `cargo xtask peers` has installed Codex.
const PROGRAM = process.env.CODEX_BIN

// The environment of a server whose Codex has a key for the scripted model.
export const KEY = { SCRIPTED_KEY: "not-a-key" }

// `name` is the model that Codex calls; it decides which tools Codex offers.
export async function createWorld(model, name) {
  requireSealed()
  assert.ok(PROGRAM, "CODEX_BIN is not set: run this with `cargo xtask peers`")
  const world = await World.create()
  await symlink(PROGRAM, path.join(world.bin, "codex"))
  await mkdir(path.join(world.home, ".codex"))
  const lines = [
    `model = ${JSON.stringify(name)}`,
    'model_provider = "scripted"',
    "check_for_update_on_startup = false",
    "[analytics]",
    "enabled = false",
    "[agents]",
    "max_depth = 3",
    "[model_providers.scripted]",
    'name = "Scripted"',
    `base_url = ${JSON.stringify(model.url)}`,
    'wire_api = "responses"',
    'env_key = "SCRIPTED_KEY"',
    "request_max_retries = 0",
    "stream_max_retries = 0",
  ]
  await writeFile(path.join(world.home, ".codex/config.toml"), lines.join("\n"))
  const config = { agents: { codex: { permission_mode: "bypass" } }, limits: LIMITS }
  await world.configure(config)
  return world
}
