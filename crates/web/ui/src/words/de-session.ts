// German sentences of completion, requests and other parts of one session.

import type { Outcome } from "../core/requests.ts"
import type { session as en } from "./en-session.ts"

const OUTCOMES: Record<Outcome, string> = {
  once: "Erlaubt",
  always: "Immer erlaubt",
  reject: "Abgelehnt",
  answered: "Beantwortet",
  dismissed: "Verworfen",
}

export const session: typeof en = {
  promptMenu: {
    menu: "Aktionen für diese Nachricht",
    copy: "Prompt kopieren",
    fork: "Vor diesem Prompt abzweigen",
    edit: "Ändern und noch einmal senden…",
    revert: "Bis hierher zurücknehmen…",
    revertSure: (count) => (count === 1 ? "Diesen Prompt zurücknehmen?" : `${count} Prompts zurücknehmen?`),
    revertFiles: "Diese Dateien kehren in ihren Zustand davor zurück. Bis zum nächsten Prompt lässt sich alles wiederherstellen.",
    revertNoFiles: "Keine Datei wurde geändert. Bis zum nächsten Prompt lässt sich alles wiederherstellen.",
    takeBack: "Zurücknehmen",
    reverted: (count) => (count === 0 ? "Nachrichten sind zurückgenommen." : count === 1 ? "1 Prompt ist zurückgenommen." : `${count} Prompts sind zurückgenommen.`),
    revertedText: "Der nächste Prompt entfernt sie.",
    bringBack: "Wiederherstellen",
  },
  completion: {
    title: "Vorschläge",
    kinds: { file: "Datei", folder: "Ordner", agent: "Agent", resource: "Ressource", command: "Befehl" },
    own: { compact: "Das Gespräch zusammenfassen, um Kontext des Modells freizumachen" },
  },
  onceForAll: (count) => `Alle ${count} einmal erlauben`,
  onceForThese: "Nur diese, je einmal:",
  rejectBecause: "Ablehnen und begründen…",
  why: "Grund für den Agenten, oder was er stattdessen tun soll",
  expires: (time) => `läuft in ${time} ab`,
  closeNote: "Hinweis schließen",
  ending: ({ outcome, by, isUnanswered }) => {
    const what = outcome ? OUTCOMES[outcome] : "Beantwortet"
    if (isUnanswered) return `Keine Antwort in der Frist: ${what.toLowerCase()}.`
    if (by?.kind === "approval") return `${what} durch eine Freigabe.`
    return by?.name ? `${what} von ${by.name}.` : `${what} von einem anderen Client.`
  },
  shellHint: "Läuft in einer Shell, ohne den Agenten",
  shellBusy: "Ein Shell-Befehl läuft nur, wenn kein Zug läuft. Stoppe den Zug oder warte auf sein Ende.",
  nothingToSummarise: "In dieser Sitzung gibt es noch nichts zusammenzufassen.",
  compaction: "Hier wurde das Gespräch zusammengefasst",
  between: "Die Nachrichten dazwischen laden",
  messageGone: "Die Nachricht dieses Links gibt es nicht mehr.",
  expanded: "Prompt dieses Befehls",
}
