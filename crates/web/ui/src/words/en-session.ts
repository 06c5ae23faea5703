// English sentences of completion, requests and other parts of one session.

import type { Ending, Outcome } from "../core/requests.ts"

const OUTCOMES: Record<Outcome, string> = {
  once: "Allowed",
  always: "Always allowed",
  reject: "Rejected",
  answered: "Answered",
  dismissed: "Dismissed",
}

export const session = {
  promptMenu: {
    menu: "Actions for this message",
    copy: "Copy prompt",
    fork: "Fork before this prompt",
    edit: "Edit and send again…",
    revert: "Take back to here…",
    revertSure: (count: number) => (count === 1 ? "Take back this prompt?" : `Take back ${count} prompts?`),
    revertFiles: "These files return to their state before it. You can bring everything back until you send the next prompt.",
    revertNoFiles: "No file was changed. You can bring everything back until you send the next prompt.",
    takeBack: "Take back",
    reverted: (count: number) => (count === 0 ? "Messages are taken back." : count === 1 ? "1 prompt is taken back." : `${count} prompts are taken back.`),
    revertedText: "The next prompt removes them.",
    bringBack: "Bring back",
  },
  completion: {
    title: "Suggestions",
    kinds: { file: "file", folder: "folder", agent: "agent", resource: "resource", command: "command" },
    own: { compact: "Summarise the conversation to free the model's context" },
  },
  onceForAll: (count: number) => `Allow all ${count} once`,
  onceForThese: "Only these, once each:",
  rejectBecause: "Reject and say why…",
  why: "Reason for the agent, or what it should do instead",
  expires: (time: string) => `expires in ${time}`,
  closeNote: "Close this note",
  ending: ({ outcome, by, isUnanswered }: Ending): string => {
    const what = outcome ? OUTCOMES[outcome] : "Answered"
    if (isUnanswered) return `No answer in time: ${what.toLowerCase()}.`
    if (by?.kind === "approval") return `${what} by an approval.`
    return by?.name ? `${what} by ${by.name}.` : `${what} by another client.`
  },
  shellHint: "Runs in a shell, without the agent",
  shellBusy: "A shell command runs only while no turn does. Stop the turn, or wait for its end.",
  nothingToSummarise: "This session has nothing to summarise yet.",
  compaction: "The conversation was summarised here",
  between: "Load the messages between",
  messageGone: "The message of this link does not exist any more.",
  expanded: "Prompt of this command",
}
