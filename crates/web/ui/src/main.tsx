// The page's entry.

import { render } from "solid-js/web"
import { Page } from "./views/page.tsx"
import "./style/index.css"

const root = document.querySelector("#page")
if (root) render(() => <Page />, root)
