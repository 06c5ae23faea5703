// English sentences of terminals, the installed page, and the list's own actions.

const plural = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`

export const around = {
  terminal: {
    tabs: "Terminals of this directory",
    none: "No terminal is open in this directory.",
    open: "Open a terminal",
    name: (number: number) => `Terminal ${number}`,
    close: (title: string) => `Close ${title}`,
    closeSure: (title: string) => `Close ${title}?`,
    closeText: "Its program and everything that it has started will end.",
    closeShort: "Close",
    screen: "Terminal. F6 leaves it",
    readAloud: "Screen reader",
    ended: (code: number) => (code === 0 ? "The program has ended (exit code 0)." : `The program has ended with exit code ${code}.`),
    connecting: "Connecting…",
    pasteTitle: "Paste several lines?",
    pasteText: "A shell runs complete lines at once.",
    paste: "Paste",
    openLink: "Open link",
    openLinkSure: (host: string) => `Open ${host}?`,
    openLinkText: "The text of this link names another address. It leads to:",
  },
  selected: (count: number) => plural(count, "session selected", "sessions selected"),
}
