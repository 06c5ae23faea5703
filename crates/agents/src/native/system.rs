//! The system prompt.

use engine::session::Turn;
use jiff::Timestamp;
use protocol::Millis;
use protocol::agent::Agent;

/// For agents that have no prompt of their own.
const PROMPT: &str = "\
You are Baton's coding agent. You work in a person's project with the tools you are given.

- Look before you act: read the files you are about to change, and follow the conventions you find there.
- Do what was asked, all of it and nothing else. If something essential is unclear, ask with the question tool.
- For work of several steps keep a list with todowrite, and keep it up to date.
- Check your work with the project's own tests and tools where you can.
- Say briefly what you did and what is left. Do not repeat what the person can see. Never claim what you have not \
  checked.";

/// Everything the model is told before the conversation.
pub(super) fn prompt(
    turn: &Turn,
    agent: Option<&Agent>,
    instructions: &str,
    now: Millis,
    extra: Option<&str>,
) -> String {
    let opening = agent.and_then(|agent| agent.prompt.as_deref()).unwrap_or(PROMPT);
    let model = &turn.model;
    let date = Timestamp::from_millisecond(now)
        .map(|time| time.strftime("%Y-%m-%d").to_string())
        .unwrap_or_default();
    let environment = format!(
        "<env>\nModel: {}/{}\nWorking directory: {}\nPlatform: {}\nDate: {date}\n</env>",
        model.provider_id,
        model.model_id,
        turn.session.directory,
        std::env::consts::OS,
    );
    [opening, environment.as_str(), instructions, extra.unwrap_or_default()]
        .into_iter()
        .map(str::trim)
        .filter(|section| !section.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}
