// German sentences of completion, requests and other parts of one session.

import type { session as en } from "./en-session.ts"

export const session: typeof en = {
  completion: {
    title: "Vorschläge",
    kinds: { file: "Datei", folder: "Ordner", agent: "Agent", resource: "Ressource", command: "Befehl" },
    own: { compact: "Das Gespräch zusammenfassen, um Kontext des Modells freizumachen" },
  },
  shellHint: "Läuft in einer Shell, ohne den Agenten",
  shellBusy: "Ein Shell-Befehl läuft nur, wenn kein Zug läuft. Stoppe den Zug oder warte auf sein Ende.",
  nothingToSummarise: "In dieser Sitzung gibt es noch nichts zusammenzufassen.",
  compaction: "Hier wurde das Gespräch zusammengefasst",
  expanded: "Prompt dieses Befehls",
}
