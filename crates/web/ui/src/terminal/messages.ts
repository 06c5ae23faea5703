// Messages between the page and the frame of a terminal. The frame gets an address of one socket and nothing else of
// the server: the page makes all calls.

export interface Look {
  // Attributes of the document element that choose the theme.
  dataset: Record<string, string>
  // Variables of the user's own theme.
  variables: Record<string, string>
  // True if xterm keeps a copy of the screen for screen readers.
  isReadAloud: boolean
}

export interface FrameWords {
  locale: string
  screen: string
  pasteTitle: string
  pasteText: string
  paste: string
  cancel: string
}

// From the page.
export type Order =
  | { kind: "open"; socket: string; cursor: number }
  | { kind: "look"; look: Look; words: FrameWords }
  | { kind: "focus" }

// From the frame.
export type Report =
  | { kind: "ready" }
  | { kind: "size"; rows: number; cols: number }
  // The connection broke after this cursor; the frame needs another socket.
  | { kind: "lost"; cursor: number }
  | { kind: "connected" }
  | { kind: "ended" }
  | { kind: "link"; address: string; text: string }
  // The user leaves the terminal with the keyboard.
  | { kind: "leave" }
