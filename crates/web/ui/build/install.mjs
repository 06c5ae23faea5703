// Vite's plugin for the installed page: icons, the manifest, and the list of files that the service worker keeps.

import { createHash } from "node:crypto"
import { drawIcon } from "./icons.mjs"

const FOLDER = "web/assets"
const COLOUR = "#3d5afe"
// The name that the service worker's source has for its list of files.
const PLACE = /["'`]__SHELL__["'`]/

const hash = (content) => createHash("sha256").update(content).digest("hex").slice(0, 8)

// A file whose name contains a hash of its content.
const named = (name, ending, source) => ({
  fileName: `${FOLDER}/${name}-${hash(source)}.${ending}`,
  source,
})

const icons = () => [
  { sizes: "192x192", purpose: "any", file: named("icon-192", "png", drawIcon(192, false)) },
  { sizes: "512x512", purpose: "any", file: named("icon-512", "png", drawIcon(512, false)) },
  { sizes: "512x512", purpose: "maskable", file: named("icon-masked", "png", drawIcon(512, true)) },
]

// Addresses are relative to the manifest, so the page can be installed from behind any prefix.
const manifest = (made) =>
  named(
    "manifest",
    "webmanifest",
    JSON.stringify({
      id: "../../",
      name: "Baton",
      short_name: "Baton",
      description: "Watch and steer coding agents",
      start_url: "../../",
      scope: "../../",
      display: "standalone",
      background_color: "#fbfbfa",
      theme_color: COLOUR,
      icons: made.map(({ sizes, purpose, file }) => ({
        src: file.fileName.slice(FOLDER.length + 1),
        sizes,
        purpose,
        type: "image/png",
      })),
    }),
  )

export function installation() {
  const drawn = icons()
  const described = manifest(drawn)
  const link = (rel, file, more = {}) => ({
    tag: "link",
    attrs: { rel, href: `./${file.fileName}`, ...more },
    injectTo: "head",
  })
  return {
    name: "baton-installation",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler(_, { path }) {
        if (path !== "/index.html") return []
        // The manifest of a server behind a proxy with a sign-in needs the browser's credentials.
        return [
          link("manifest", described, { crossorigin: "use-credentials" }),
          link("apple-touch-icon", drawn.at(-1).file),
          { tag: "meta", attrs: { name: "theme-color", content: COLOUR }, injectTo: "head" },
        ]
      },
    },
    generateBundle: {
      order: "post",
      handler(_, bundle) {
        for (const file of [...drawn.map((icon) => icon.file), described]) this.emitFile({ type: "asset", ...file })
        const page = bundle["index.html"]
        const worker = bundle["service-worker.js"]
        if (page?.type !== "asset" || worker?.type !== "chunk") throw new Error("the build lacks the page or its worker")
        const html = String(page.source)
        const named = [...html.matchAll(/(?:src|href)="\.\/(web\/assets\/[^"]+\.(?:js|css))"/g)].map(([, file]) => file)
        // Every file's name contains its hash, so the names tell if anything has changed.
        const build = hash([html, ...Object.keys(bundle).sort()].join("\n"))
        if (!PLACE.test(worker.code)) throw new Error("the service worker has no place for the list of files")
        worker.code = worker.code.replace(PLACE, () => JSON.stringify({ build, files: ["./", ...named] }))
      },
    },
  }
}
