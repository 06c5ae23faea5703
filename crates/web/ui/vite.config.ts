// Builds the page into a few files with relative addresses, so that it works behind any prefix.

import { defineConfig } from "vite"
import solid from "vite-plugin-solid"

const dom = new URL("./src/dom.ts", import.meta.url).pathname

export default defineConfig({
  base: "./",
  // Compiled templates go through the page's trusted-types policy.
  plugins: [solid({ hot: false, solid: { moduleName: "baton-dom" } })],
  resolve: { alias: { "baton-dom": dom } },
  worker: { format: "es" },
  build: {
    target: "es2023",
    assetsDir: "web/assets",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
})
