// Renders docs/scenarios.md, the table of scenarios.

const REMARKS = {
  error_400: "OpenCode's first pair comes before the message is closed",
  error_401: "the same",
  error_500_forever: "the same, after five retries",
  stall: "aborted by the test; without the abort, Baton retries after the timeout between two chunks",
  stall_once: "aborted by the test; without the abort, Baton retries after the timeout for the first chunk",
  long_tool: "aborted by the test",
  abort: "OpenCode: two pairs for the abort, one for the abort of an idle session, one for the prompt",
  abort_tool: "the same; OpenCode shows the aborted command as completed",
  abort_permission: "OpenCode leaves the permission request open and accepts the late answer",
  abort_queue: "OpenCode leaves the second prompt unanswered, without an event; Baton ends it with an event",
  queue: "Baton answers each prompt on its own, OpenCode the last two in one call; one turn either way",
  delete_busy: "OpenCode publishes no idle and keeps calling the model",
  kill_KILL_text: "after the restart OpenCode never ends the turn; the one pair belongs to the later prompt",
  kill_KILL_tool: "the same; the tool stays `running` for ever",
  kill_KILL_permission: "the same; OpenCode loses the permission request without an event, while Baton keeps it and accepts an answer",
  kill_TERM_text: "the same, although SIGTERM allows a clean shutdown",
  doom_loop: "Baton asks the user at the third equal call, OpenCode never does",
  doom_parallel: "both ask the user",
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

An idle pair tells a client that a turn is over: \`session.status\` with idle, then \`session.idle\`. This table counts
the pairs that a client receives on \`GET /event\`. Baton sends one pair for each turn, after everything that the turn
opened is closed, and sends nothing about the turn after it. OpenCode's numbers come from recordings of OpenCode
1.18.33 (\`crates/protocol/tests/fixtures/opencode\`); an empty cell means that there is no recording. Numbers that
differ are bold.

The first part of the table lists the scenarios of the built-in demo model, and what the model does in each. Try one with
\`baton run --model demo/retry_429 "hello"\`. The second part, from \`abort\` on, lists actions of clients during a turn.

The end-to-end tests generate this page. They run every row, check its recording with \`baton check\`, and fail if this
page is out of date. \`UPDATE=1 cargo xtask e2e scenarios.test.mjs\` rewrites the page.

| scenario | what happens | Baton | OpenCode | remark |
|---|---|---|---|---|
`
