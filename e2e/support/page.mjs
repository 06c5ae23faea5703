// The page that shows the table of scenarios to people.

const REMARKS = {
  error_400: "OpenCode's first pair comes before the message is closed",
  error_401: "the same",
  error_500_forever: "the same, after five retries",
  stall: "aborted by the test; by itself Baton gives up after five minutes of silence and tries again",
  stall_once: "aborted by the test; by itself Baton gives up after five minutes and tries again",
  long_tool: "aborted by the test",
  abort: "OpenCode: two pairs for the abort, one for the abort of an idle session, one for the prompt",
  abort_tool: "the same; OpenCode shows the aborted command as completed",
  abort_permission: "OpenCode leaves the permission open and accepts the late answer",
  abort_queue: "OpenCode leaves the second prompt unanswered and says nothing; Baton ends it with an event",
  queue: "Baton answers each prompt on its own, OpenCode the last two in one call; one turn either way",
  delete_busy: "OpenCode says nothing and goes on calling the model",
  kill_KILL_text: "after the restart OpenCode never ends the turn: the pair is the later prompt's",
  kill_KILL_tool: "the same; the tool stays `running` for ever",
  kill_KILL_permission: "the same; the permission is gone without a word, where Baton's can still be answered",
  kill_TERM_text: "the same, although it was asked politely",
  doom_loop: "Baton asks a person at the third equal call, OpenCode never does",
  doom_parallel: "both ask a person",
}

export function render(table, abouts) {
  const lines = table.map(({ scenario, baton, opencode, children }) => {
    const child = children && `each child: Baton ${list(children.baton)}, OpenCode ${list(children.opencode)}`
    const remark = [REMARKS[scenario], child].filter(Boolean).join("; ")
    const cells = [`\`${scenario}\``, abouts.get(scenario), shown(baton), shown(opencode, baton), remark]
    return `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`
  })
  return `${HEAD}${lines.join("\n")}\n`
}

const list = (counts) => counts?.join(" + ") ?? "not recorded"

function shown(count, other = count) {
  if (count === null) return ""
  return count === other ? String(count) : `**${count}**`
}

const HEAD = `# Idle, scenario by scenario

A client is told that a turn is over by an idle pair: \`session.status\` with idle, then \`session.idle\`. This table
counts the pairs that a client sees on \`GET /event\`. Baton sends one for each turn, after everything the turn
opened is closed, and nothing about the turn after it. OpenCode's numbers come from recordings of OpenCode 1.18.33
(\`crates/protocol/tests/fixtures/opencode\`); where the cell is empty there is none. Numbers that differ are bold.

The first part are the scenarios of the built-in demo model: try one with
\`baton run --model demo/retry_429 "hello"\`. The rest is what a person may do in between.

The file is written by the end-to-end tests, which run every line, pass its recording to \`baton check\`, and fail
when this page is out of date. \`UPDATE=1 cargo xtask e2e scenarios.test.mjs\` writes it anew.

| scenario | what happens | Baton | OpenCode | remark |
|---|---|---|---|---|
`
