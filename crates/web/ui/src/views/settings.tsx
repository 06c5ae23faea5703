// The settings: a section for each subject.

import { For, Match, Show, Switch, createEffect, on } from "solid-js"
import { MAX_THEME, parseTheme } from "../core/theme.ts"
import { oneLine } from "../plain.ts"
import { route } from "../route.ts"
import { DENSITIES, LOOKS, THEMES, change, settings } from "../settings.ts"
import { LANGUAGES, type Language, words } from "../words.ts"
import { KeyTable } from "./keys.tsx"
import { Notifications, Storage } from "./local.tsx"
import { SECTIONS, type Section } from "./sections.ts"
import { Mcp } from "./mcp.tsx"
import { About, Approvals, Browsers, ProviderKeys } from "./server.tsx"
import { Toggle } from "./toggle.tsx"

export function Settings() {
  const section = (): Section => {
    const to = route()
    return SECTIONS.find((name) => to.screen === "settings" && name === to.section) ?? "looks"
  }
  let nav!: HTMLElement
  // On a phone the sections are one line, which may hide the current one.
  createEffect(on(section, () => queueMicrotask(() => nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }))))
  return (
    <div class="screen settings">
      <header class="screen-head">
        <a class="back" href="#/" aria-label={words.back}>
          ‹
        </a>
        <h2>{words.settings.title}</h2>
      </header>
      <div class="settings-body">
        <nav aria-label={words.settings.title} ref={nav}>
          <For each={SECTIONS}>
            {(name) => (
              <a href={`#/settings/${name}`} aria-current={name === section() ? "page" : undefined}>
                {words.settings.sections[name]}
              </a>
            )}
          </For>
        </nav>
        <section aria-label={words.settings.sections[section()]}>
          <h3>{words.settings.sections[section()]}</h3>
          <Switch>
            <Match when={section() === "looks"}>
              <Looks />
            </Match>
            <Match when={section() === "keys"}>
              <Toggle label={words.settings.letterKeys} value={settings().hasLetterKeys} onChange={(hasLetterKeys) => change({ hasLetterKeys })} />
              <p class="fate">{words.bindings.editHint}</p>
              <KeyTable isEditable />
            </Match>
            <Match when={section() === "notifications"}>
              <Notifications />
            </Match>
            <Match when={section() === "approvals"}>
              <Approvals />
            </Match>
            <Match when={section() === "providers"}>
              <ProviderKeys />
            </Match>
            <Match when={section() === "mcp"}>
              <Mcp />
            </Match>
            <Match when={section() === "browsers"}>
              <Browsers />
            </Match>
            <Match when={section() === "storage"}>
              <Storage />
            </Match>
            <Match when={section() === "about"}>
              <About />
            </Match>
          </Switch>
        </section>
      </div>
    </div>
  )
}

function Looks() {
  return (
    <>
      <Choice label={words.settings.look} names={LOOKS} value={settings().look} text={(it) => words.settings.looks[it]} onChoose={(look) => change({ look })} />
      <fieldset class="themes">
        <legend>{words.settings.theme}</legend>
        <For each={THEMES}>
          {(theme) => (
            <label data-theme={theme}>
              <input type="radio" name="theme" checked={settings().theme === theme} onChange={() => change({ theme })} />
              <span class="swatch" aria-hidden="true">
                <i />
                <i />
                <i />
              </span>
              {words.settings.themes[theme]}
            </label>
          )}
        </For>
        <label>
          <input type="radio" name="theme" checked={settings().theme === "own"} onChange={() => change({ theme: "own" })} />
          {words.ownTheme.name}
        </label>
      </fieldset>
      <Show when={settings().theme === "own"}>
        <OwnTheme />
      </Show>
      <Toggle label={words.settings.contrast} value={settings().hasContrast} onChange={(hasContrast) => change({ hasContrast })} />
      <Choice
        label={words.settings.density}
        names={DENSITIES}
        value={settings().density}
        text={(it) => words.settings.densities[it]}
        onChoose={(density) => change({ density })}
      />
      <label>
        {words.settings.language}
        <select onChange={(event) => change({ language: event.target.value as Language | "browser" })}>
          <option value="browser" selected={settings().language === "browser"}>
            {words.settings.browserLanguage}
          </option>
          <For each={Object.entries(LANGUAGES)}>
            {([id, name]) => (
              <option value={id} selected={settings().language === id}>
                {name}
              </option>
            )}
          </For>
        </select>
      </label>
      <Toggle label={words.settings.split} value={settings().isSplit} onChange={(isSplit) => change({ isSplit })} />
    </>
  )
}

function OwnTheme() {
  const refused = () => parseTheme(settings().ownTheme).refused
  return (
    <label class="own-theme">
      {words.ownTheme.label}
      <span class="fate">{words.ownTheme.text}</span>
      <textarea rows="8" maxlength={MAX_THEME} spellcheck={false} value={settings().ownTheme} onInput={(event) => change({ ownTheme: event.target.value })} />
      <Show when={refused().length > 0}>
        <span class="error" role="alert">
          {words.ownTheme.refused(refused().map(oneLine).join("; "))}
        </span>
      </Show>
    </label>
  )
}

function Choice<T extends string>(props: {
  label: string
  names: readonly T[]
  value: T
  text: (name: T) => string
  onChoose: (name: T) => void
}) {
  return (
    <fieldset class="choice">
      <legend>{props.label}</legend>
      <For each={props.names}>
        {(name) => (
          <label>
            <input type="radio" name={props.label} checked={props.value === name} onChange={() => props.onChoose(name)} />
            {props.text(name)}
          </label>
        )}
      </For>
    </fieldset>
  )
}
