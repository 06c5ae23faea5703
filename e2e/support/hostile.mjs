// Texts of models, tools, files and programs that try to become more than text.

export const RUN = "window.hacked=1"
const HOST = "http://evil.example/x"

// Markup that runs a script, loads something or leaves its box if it is parsed.
export const MARKUP = [
  `<script>${RUN}</script>`,
  `<img src=x onerror="${RUN}">`,
  `<img src="${HOST}.png">`,
  `<svg onload="${RUN}"><a href="javascript:${RUN}"><text>x</text></a></svg>`,
  `<svg><script>${RUN}</script></svg>`,
  `<math><mi xlink:href="javascript:${RUN}">x</mi></math>`,
  `<iframe src="javascript:parent.${RUN}"></iframe>`,
  `<iframe srcdoc="<script>parent.${RUN}</script>"></iframe>`,
  `<iframe src="${HOST}"></iframe>`,
  `<object data="${HOST}"></object>`,
  `<embed src="${HOST}">`,
  `<link rel="stylesheet" href="${HOST}.css">`,
  `<style>@import "${HOST}.css"; body { display: none }</style>`,
  `<base href="${HOST}">`,
  `<meta http-equiv="refresh" content="0;url=${HOST}">`,
  `<form action="${HOST}"><button autofocus>x</button></form>`,
  `<input autofocus onfocus="${RUN}">`,
  `<details open ontoggle="${RUN}">x</details>`,
  `<video src="${HOST}.mp4" autoplay onerror="${RUN}"></video>`,
  `<audio src="${HOST}.mp3" autoplay></audio>`,
  `<body onload="${RUN}">`,
  `<div style="position:fixed;inset:0;background:url(${HOST})">x</div>`,
  `<template><script>${RUN}</script></template>`,
  `<noscript><p title="</noscript><img src=x onerror=${RUN}>">`,
  `</pre></code></div><script>${RUN}</script>`,
  `<!--><script>${RUN}</script>-->`,
  `<![CDATA[><script>${RUN}</script>]]>`,
  `<x onclick="${RUN}">x</x>`,
  `&lt;script&gt;${RUN}&lt;/script&gt;`,
  `<a href="java&#10;script:${RUN}">x</a>`,
]

// Every handler that runs without a click, in every element that may have it.
const HANDLERS = ["load", "error", "focus", "toggle", "animationstart", "transitionend", "pointerenter", "mouseover", "scroll", "beforeinput"]
const ELEMENTS = ["img src=x", "svg", "body", "input autofocus", "details open", "video src=x", "iframe src=x", "object data=x", "marquee", "a href=# autofocus"]
const HANDLED = ELEMENTS.flatMap((element) => HANDLERS.map((handler) => `<${element} on${handler}="${RUN}">`))

const SCHEMES = ["javascript:", "JaVaScRiPt:", "java\tscript:", "&#106;avascript:", "\u0001javascript:", "data:text/html,", "data:image/svg+xml,", "vbscript:", "file:///", "blob:"]

// The same in places where Markdown would put it into an attribute or an element.
const MARKDOWN = [
  ...SCHEMES.flatMap((scheme) => [
    `[x](${scheme}${RUN})`,
    `[x](<${scheme}${RUN}>)`,
    `![x](${scheme}${RUN})`,
    `<${scheme}${RUN}>`,
    `[x][1]\n\n[1]: ${scheme}${RUN}`,
  ]),
  `![x](${HOST}.png)`,
  `![x](${HOST}.png "title" onerror="${RUN}")`,
  `[x](${HOST}" onmouseover="${RUN})`,
  `[a](http://a" onerror="${RUN})`,
  "```html\n<script>window.hacked=1</script>\n```",
  `\`<script>${RUN}</script>\``,
  `| a |\n|---|\n| <img src=x onerror="${RUN}"> |`,
  `> <script>${RUN}</script>`,
  `- <script>${RUN}</script>`,
  `# <script>${RUN}</script>`,
  `${"> ".repeat(200)}deep`,
  `${"- ".repeat(200)}deep`,
  `${"[".repeat(500)}x${"](y)".repeat(500)}`,
  `${"*".repeat(2_000)}x`,
]

// Every text that tries to become more than text.
export const PAYLOADS = [...MARKUP, ...HANDLED, ...MARKUP.map((text) => `**${text}**`), ...MARKUP.map((text) => `- a\n  ${text}`), ...HANDLED.map((text) => `> ${text}`), ...MARKDOWN]

// Control sequences that try to use the terminal which shows them.
export const CONTROLS = [
  // A title, and the query that would type it into the shell.
  `\u001b]0;${MARKUP[0]}\u0007`,
  `\u001b]2;touch hacked\u0007\u001b[21t`,
  // The clipboard, pictures and files.
  `\u001b]52;c;${Buffer.from(RUN).toString("base64")}\u0007`,
  `\u001b]1337;File=inline=1:${Buffer.from(MARKUP[3]).toString("base64")}\u0007`,
  `\u001bPq#0;2;0;0;0~\u001b\\`,
  // Markup between escapes, and in sequences that do not exist.
  ...MARKUP.slice(0, 4).map((text) => `\u001b[31m${text}\u001b[0m`),
  ...MARKUP.slice(0, 4).map((text) => `\u001b]777;notify;${text}\u0007`),
  ...MARKUP.slice(0, 4).map((text) => `\u001b_${text}\u001b\\`),
]
