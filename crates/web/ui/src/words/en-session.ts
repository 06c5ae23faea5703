// English sentences of completion, requests and other parts of one session.

export const session = {
  completion: {
    title: "Suggestions",
    kinds: { file: "file", folder: "folder", agent: "agent", resource: "resource", command: "command" },
    own: { compact: "Summarise the conversation to free the model's context" },
  },
  shellHint: "Runs in a shell, without the agent",
  shellBusy: "A shell command runs only while no turn does. Stop the turn, or wait for its end.",
  nothingToSummarise: "This session has nothing to summarise yet.",
  compaction: "The conversation was summarised here",
  expanded: "Prompt of this command",
}
