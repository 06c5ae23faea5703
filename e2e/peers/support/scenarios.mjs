// The scenarios of the scripted model: a list of steps, one for each call of the model. Further calls repeat the last step.

const say = (...pieces) => pieces.map((say) => ({ say }))
const think = (...pieces) => pieces.map((think) => ({ think }))
const call = (call, input) => ({ call, input })
const HOLD = { hold: true }

// Starts a subagent.
const below = (prompt) => [
  { acts: [call("task", { description: "Does it", prompt, subagent_type: "general" })] },
  { acts: say("It is done.") },
]

const COLOURS = {
  question: "Which colour do you like?",
  header: "Colour",
  options: [
    { label: "Blue", description: "like the sky" },
    { label: "Green", description: "like grass" },
  ],
}

const CODE = Array.from({ length: 100 }, (_, index) => `let line_${index + 1} = ${"1 + ".repeat(12)}1;\n`).join("")

export const scenarios = {
  hello: [{ acts: say("Hello ", "from the ", "scripted model.") }],
  think: [{ acts: [...think("First ", "I think."), ...say("Then ", "I speak.")] }],
  read: [
    { acts: [...say("Let me look."), call("read", { filePath: "README.md" })] },
    { acts: say("It says ", "something to read.") },
  ],
  shell: [
    { acts: [call("bash", { command: "echo one two three", description: "Counts" })] },
    { acts: say("Counted.") },
  ],
  write: [
    { acts: [call("write", { filePath: "notes.txt", content: "a note\n" })] },
    { acts: say("Written down.") },
  ],
  permission: [
    { acts: [call("bash", { command: "touch asked.txt", description: "Makes a file" })] },
    { acts: say("The file is there.") },
  ],
  question: [{ acts: [call("question", { questions: [COLOURS] })] }, { acts: say("A fine choice.") }],
  todo: [
    {
      acts: [
        call("todowrite", {
          todos: [
            { content: "Think", status: "completed", priority: "high" },
            { content: "Work", status: "cancelled", priority: "low" },
          ],
        }),
      ],
    },
    { acts: say("Planned.") },
  ],
  // Leaves todos open, so Baton continues the turn, unless continuation is disabled.
  open: [
    { acts: [call("todowrite", { todos: [{ content: "Work", status: "pending", priority: "low" }] })] },
    { acts: say("Planned.") },
  ],
  // Stops with an open todo, and finishes when Baton asks it to continue.
  unfinished: [
    { acts: [call("todowrite", { todos: [{ content: "Work", status: "pending", priority: "low" }] })] },
    { acts: say("Planned.") },
    { acts: [call("todowrite", { todos: [{ content: "Work", status: "completed", priority: "low" }] })] },
    { acts: say("All done.") },
  ],
  // Overwrites a file that it has not read.
  overwrite: [
    { acts: [call("write", { filePath: "README.md", content: "Nothing\n" })] },
    { acts: say("I had better not.") },
  ],
  // Two ways to read a file that must not be read.
  secret: [
    { acts: [call("read", { filePath: ".env" }), call("bash", { command: "cat .env", description: "Looks" })] },
    { acts: say("I may not look.") },
  ],
  parallel: [
    { acts: [call("read", { filePath: "README.md" }), call("read", { filePath: "opencode.json" })] },
    { acts: say("Both done.") },
  ],
  missing: [{ acts: [call("read", { filePath: "nowhere.txt" })] }, { acts: say("It is not there.") }],
  edit: [
    { acts: [call("read", { filePath: "README.md" })] },
    { acts: [call("edit", { filePath: "README.md", oldString: "Something", newString: "Something new" })] },
    { acts: say("Changed.") },
  ],
  // The model reaches its output limit.
  cut: [{ acts: say("This is cut"), finish: "length" }],
  // Arguments that the tool does not know.
  wrong: [{ acts: [call("read", { name: "README.md" })] }, { acts: say("I was wrong.") }],
  // A tool that does not exist.
  unknown: [{ acts: [call("fly", { to: "the moon" })] }, { acts: say("I cannot fly.") }],
  filtered: [{ acts: say("I may not"), finish: "content_filter" }],
  // The provider refuses the first attempt only.
  again: [{ first: { status: 429, message: "scripted rate limit", headers: { "retry-after-ms": "20" } }, acts: say("At last.") }],
  task: [
    {
      acts: [
        call("task", { description: "Looks around", prompt: "please [read]", subagent_type: "general" }),
      ],
    },
    { acts: say("The other one has looked.") },
  ],
  // The subagent's task needs a permission.
  delegate: [
    {
      acts: [
        call("task", { description: "Makes a file", prompt: "please [permission]", subagent_type: "general" }),
      ],
    },
    { acts: say("The other one has done it.") },
  ],
  hello_below: below("please [hello]"),
  permission_below: below("please [permission]"),
  hold_below: below("please [hold]"),
  // Longer than any chat service accepts in one message.
  long: [{ acts: say("Look:\n```rust\n", CODE, "```\n", "The end of it all.") }],
  // Pauses between the tool and the text, so that a test can see the tool.
  work: [
    { acts: [call("bash", { command: "echo one two three", description: "Counts" })] },
    { acts: [HOLD, ...say("Counted.")] },
  ],
  stall: [{ acts: [call("bash", { command: "sleep 4242", description: "Waits" })] }, { acts: say("It is over.") }],
  hold: [{ acts: [...say("I begin ", "and wait"), HOLD, ...say(" until now.")] }],
  refused: [{ status: 400, message: "scripted refusal" }],
}
