// Lets Node 20 import the page's TypeScript: types are removed, nothing is checked (`npm run check` does that).

import { register } from "node:module"

register("./hooks.mjs", import.meta.url)
