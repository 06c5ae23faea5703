// Every sentence of the page, in the language that the user has chosen, and the forms of numbers and times.

import { createSignal } from "solid-js"
import { type Words, en } from "./words/en.ts"

export const LANGUAGES = { en: "English", de: "Deutsch" } as const
export type Language = keyof typeof LANGUAGES

const [table, setTable] = createSignal<Words>(en)

// The sentences. A read depends on the language, so a change of it needs no reload.
export const words: Words = new Proxy(en, { get: (_, key) => table()[key as keyof Words] })

// Loads a language. English is part of the page, so the page is never without words.
export async function speak(language: Language) {
  const found = language === "de" ? (await import("./words/de.ts")).de : en
  setTable(() => found)
  document.documentElement.lang = found.locale
}

// The language of the browser, if the page has it.
export const browserLanguage = (): Language => (/^de\b/i.test(navigator.language) ? "de" : "en")

export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}:${String(seconds % 60).padStart(2, "0")}`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

const relatives = new Map<string, Intl.RelativeTimeFormat>()

function relative(value: number, unit: Intl.RelativeTimeFormatUnit): string {
  const { locale } = words
  const made = relatives.get(locale) ?? new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "narrow" })
  relatives.set(locale, made)
  return made.format(value, unit)
}

export function age(then: number, now: number): string {
  const minutes = Math.round((then - now) / 60_000)
  if (minutes > -1) return words.justNow
  if (minutes > -60) return relative(minutes, "minute")
  if (minutes > -1_440) return relative(Math.round(minutes / 60), "hour")
  return relative(Math.round(minutes / 1_440), "day")
}

export const count = (value: number) => new Intl.NumberFormat(words.locale, { notation: "compact" }).format(value)

export const percent = (share: number) =>
  new Intl.NumberFormat(words.locale, { style: "percent", maximumFractionDigits: 0 }).format(share)

export const money = (dollars: number) =>
  new Intl.NumberFormat(words.locale, {
    style: "currency",
    currency: "USD",
    maximumFractionDigits: dollars > 0 && dollars < 0.1 ? 4 : 2,
  }).format(dollars)

// A moment, as a date with its time.
export const moment = (ms: number) =>
  new Intl.DateTimeFormat(words.locale, { dateStyle: "medium", timeStyle: "short" }).format(ms)
