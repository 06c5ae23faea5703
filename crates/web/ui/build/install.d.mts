import type { Plugin } from "vite"

export function installation(): Plugin
