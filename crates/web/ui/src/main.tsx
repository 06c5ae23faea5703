// The page's entry.

import { render } from "solid-js/web"
import { Page } from "./views/page.tsx"
import { browserLanguage, speak } from "./words.ts"
import "./style/index.css"

const root = document.querySelector("#page")
void speak(browserLanguage())
if (root) render(() => <Page />, root)
