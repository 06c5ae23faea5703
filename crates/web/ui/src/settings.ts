// Settings of this browser, applied to the document.

import { createEffect, createRoot } from "solid-js"
import { stored } from "./kept.ts"
import { type Language, browserLanguage, speak } from "./words.ts"

export const THEMES = ["baton", "paper", "forest", "ocean", "plum", "graphite"] as const
export const LOOKS = ["system", "light", "dark"] as const
export const DENSITIES = ["comfortable", "compact"] as const

export interface Settings {
  theme: (typeof THEMES)[number]
  look: (typeof LOOKS)[number]
  density: (typeof DENSITIES)[number]
  hasContrast: boolean
  language: Language | "browser"
  isSplit: boolean
  ignoresSpace: boolean
  hasLetterKeys: boolean
}

const DEFAULTS: Settings = {
  theme: "baton",
  look: "system",
  density: "comfortable",
  hasContrast: false,
  language: "browser",
  isSplit: false,
  ignoresSpace: false,
  hasLetterKeys: true,
}

const [saved, save] = stored<Partial<Settings>>("settings", {})

export const settings = (): Settings => ({ ...DEFAULTS, ...saved() })

export const change = (part: Partial<Settings>) => save({ ...saved(), ...part })

// Keeps the document in step with the settings.
export function applySettings() {
  createRoot(() => {
    createEffect(() => {
      const { theme, look, density, hasContrast } = settings()
      Object.assign(document.documentElement.dataset, { theme, look, density, contrast: hasContrast ? "more" : "usual" })
    })
    createEffect(() => {
      const { language } = settings()
      void speak(language === "browser" ? browserLanguage() : language)
    })
  })
}
