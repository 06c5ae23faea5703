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
  selected: (count) => plural(count, "Sitzung gewählt", "Sitzungen gewählt"),
}
