// Builds the page into a few files with relative addresses, so that it works behind any prefix.

import { defineConfig } from "vite"
import solid from "vite-plugin-solid"
import { installation } from "./build/install.mjs"

const file = (path: string) => new URL(path, import.meta.url).pathname

export default defineConfig({
  base: "./",
  // Compiled templates go through the page's trusted-types policy.
  plugins: [solid({ hot: false, solid: { moduleName: "baton-dom" } }), installation()],
  resolve: { alias: { "baton-dom": file("./src/dom.ts") } },
  worker: { format: "es" },
  build: {
    target: "es2023",
    assetsDir: "web/assets",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      input: {
        index: file("./index.html"),
        terminal: file("./terminal.html"),
        "service-worker": file("./src/service-worker.ts"),
      },
      output: {
        // A service worker's address must not change with its content.
        entryFileNames: ({ name }) => (name === "service-worker" ? "service-worker.js" : "web/assets/[name]-[hash].js"),
      },
    },
  },
})
