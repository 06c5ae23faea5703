// Settings of this browser, applied to the document.

import { createEffect, createRoot } from "solid-js"
import { parseTheme } from "./core/theme.ts"
import { stored } from "./kept.ts"
import { type Language, browserLanguage, speak } from "./words.ts"

export const THEMES = ["baton", "paper", "forest", "ocean", "plum", "graphite"] as const
export const LOOKS = ["system", "light", "dark"] as const
export const DENSITIES = ["comfortable", "compact"] as const

export interface Settings {
  theme: (typeof THEMES)[number] | "own"
  // The text that the user has pasted as an own theme.
  ownTheme: string
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
  ownTheme: "",
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

// Attributes of a document element that choose the theme.
export const themeAttributes = () => {
  const { theme, look, density, hasContrast } = settings()
  return { theme, look, density, contrast: hasContrast ? "more" : "usual" }
}

// Variables of the user's own theme, if it is chosen. High contrast has colours of its own.
export function ownVariables(): Record<string, string> {
  const { theme, ownTheme, hasContrast } = settings()
  return theme === "own" && !hasContrast ? parseTheme(ownTheme).variables : {}
}

// Keeps the document in step with the settings.
export function applySettings() {
  createRoot(() => {
    createEffect(() => Object.assign(document.documentElement.dataset, themeAttributes()))
    createEffect((before: string[]) => {
      const { style } = document.documentElement
      const variables = ownVariables()
      for (const name of before) style.removeProperty(name)
      for (const [name, value] of Object.entries(variables)) style.setProperty(name, value)
      return Object.keys(variables)
    }, [])
    createEffect(() => {
      const { language } = settings()
      void speak(language === "browser" ? browserLanguage() : language)
    })
  })
}
