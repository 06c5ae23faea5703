// The page's entry.

import { render } from "solid-js/web"
import { applySettings } from "./settings.ts"
import { Page } from "./views/page.tsx"
import "./style/index.css"

const root = document.querySelector("#page")
applySettings()
if (root) render(() => <Page />, root)
