// German sentences of terminals, the installed page, and the list's own actions.

import type { around as en } from "./en-around.ts"

const plural = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`

export const around: typeof en = {
  terminal: {
    tabs: "Terminals dieses Ordners",
    none: "In diesem Ordner ist kein Terminal offen.",
    open: "Terminal öffnen",
    name: (number) => `Terminal ${number}`,
    close: (title) => `${title} schließen`,
    closeSure: (title) => `${title} schließen?`,
    closeText: "Sein Programm und alles, was es gestartet hat, endet.",
    closeShort: "Schließen",
    screen: "Terminal. F6 verlässt es",
    readAloud: "Vorlesen",
    ended: (code) => (code === 0 ? "Das Programm ist beendet (Code 0)." : `Das Programm endete mit Code ${code}.`),
    connecting: "Verbindet…",
    pasteTitle: "Mehrere Zeilen einfügen?",
    pasteText: "Eine Shell führt ganze Zeilen sofort aus.",
    paste: "Einfügen",
    openLink: "Link öffnen",
    openLinkSure: (host) => `${host} öffnen?`,
    openLinkText: "Der Text dieses Links nennt eine andere Adresse. Er führt zu:",
  },
  bindings: {
    places: { everywhere: "Überall", session: "In einer Sitzung", requests: "Anfragen", changes: "Änderungen" },
    actions: {
      palette: "Palette öffnen",
      search: "alle Sitzungen durchsuchen",
      create: "neue Sitzung",
      help: "diese Liste",
      find: "in der Sitzung suchen",
      once: "einmal erlauben",
      always: "immer…",
      reject: "ablehnen",
      nextFile: "nächste Datei",
      previousFile: "vorige Datei",
      nextHunk: "nächster Abschnitt",
      previousHunk: "voriger Abschnitt",
      comment: "erste gezeigte Zeile kommentieren",
    },
    press: "Tasten drücken…",
    change: (action) => `Taste ändern: ${action}`,
    reset: (action) => `Zurück zum Standard: ${action}`,
    conflict: (others) => `Dieselbe Taste: ${others.join(", ")}`,
    reserved: (chord) => `${chord} hat im Browser eine andere Bedeutung.`,
    editHint: "Eine Taste anklicken, dann die neue drücken. Esc behält die alte.",
  },
  ownTheme: {
    name: "Eigenes",
    label: "Variablen des eigenen Farbschemas",
    text: "Variablen aus theme.css einfügen, je Zeile „--name: wert;“. Farben können einen hellen und einen dunklen Wert haben: light-dark(#fff, #111).",
    refused: (lines) => `Nicht verwendet, weil es kein bekannter Name mit einer Farbe oder Länge ist: ${lines}`,
  },
  login: {
    with: (method) => `Anmelden: ${method}`,
    next: "Weiter",
    open: "Anmeldeseite öffnen",
    code: "Code von der Anmeldeseite",
    waiting: "Wartet, bis du angemeldet bist…",
    unsafe: "Die Adresse des Anbieters kann nicht geöffnet werden.",
  },
  quiet: { title: "Ruhezeit", from: "Ruhe von", to: "bis", none: "Keine Ruhezeit", text: "In dieser Zeit zeigt die Seite keine Benachrichtigungen. Die Liste markiert weiter, was geschehen ist." },
  selected: (count) => plural(count, "Sitzung gewählt", "Sitzungen gewählt"),
}
