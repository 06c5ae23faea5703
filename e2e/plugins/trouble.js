// Misbehaves in one hook. The file `trouble.json` of the directory names the hook and the misbehaviour.

import { readFileSync } from "node:fs"
import path from "node:path"

const never = () => new Promise(() => {})

const troubles = {
  throws: () => {
    throw new Error("trouble on purpose")
  },
  hangs: never,
  spins: () => {
    for (;;);
  },
  exits: () => process.exit(3),
  floods: () => {
    for (let count = 0; count < 200; count += 1) process.stdout.write("x".repeat(64 * 1024))
    return never()
  },
}

// The hook `auth`, which is an object with functions; one of them misbehaves.
const auth = (part, trouble) => {
  const callback = part === "callback" ? trouble : () => ({ type: "failed" })
  const begun = { url: "", instructions: "", method: "code", callback }
  const authorize = part === "authorize" ? trouble : () => begun
  const loader = part === "loader" ? trouble : () => (part === "fetch" ? { fetch: trouble } : {})
  return { provider: "nebius", loader, methods: [{ type: "oauth", label: "Trouble", authorize }] }
}

export const Trouble = async ({ directory }) => {
  const { hook, how } = JSON.parse(readFileSync(path.join(directory, "trouble.json"), "utf8"))
  if (hook === "provider.models") return { provider: { id: "nebius", models: troubles[how] } }
  const [name, part] = hook.split(".")
  return name === "auth" ? { auth: auth(part, troubles[how]) } : { [hook]: troubles[how] }
}
