// Highlights source in a thread of its own, so that a long file never delays typing.

import bash from "highlight.js/lib/languages/bash"
import c from "highlight.js/lib/languages/c"
import cpp from "highlight.js/lib/languages/cpp"
import css from "highlight.js/lib/languages/css"
import diff from "highlight.js/lib/languages/diff"
import go from "highlight.js/lib/languages/go"
import ini from "highlight.js/lib/languages/ini"
import java from "highlight.js/lib/languages/java"
import javascript from "highlight.js/lib/languages/javascript"
import json from "highlight.js/lib/languages/json"
import markdown from "highlight.js/lib/languages/markdown"
import python from "highlight.js/lib/languages/python"
import rust from "highlight.js/lib/languages/rust"
import sql from "highlight.js/lib/languages/sql"
import typescript from "highlight.js/lib/languages/typescript"
import xml from "highlight.js/lib/languages/xml"
import yaml from "highlight.js/lib/languages/yaml"
import { createLowlight } from "lowlight"
import { runsOf } from "./core/runs.ts"
import type { Answer, Order } from "./highlight.ts"

const grammars = { bash, c, cpp, css, diff, go, ini, java, javascript, json, markdown, python, rust, sql, typescript, xml, yaml }
const lowlight = createLowlight(grammars)

self.onmessage = ({ data: { id, grammar, text } }: MessageEvent<Order>) => {
  const runs = lowlight.registered(grammar) ? runsOf(lowlight.highlight(grammar, text)) : null
  self.postMessage({ id, runs } satisfies Answer)
}
