//! Texts of `/sessions`, `/model`, `/agent` and `/status`.

use std::time::Duration;

use protocol::{Millis, Session, SessionId, agent::Agent, message::ModelRef, session::Tokens};

use super::{code, excerpt, lasting};

/// Maximum number of lines of a list.
pub(crate) const SHOWN: usize = 20;

/// Beginning of the title that servers give a session before it has a subject; the rest is a time.
const UNTITLED: &str = "New session - ";

/// Data for the text of `/status`.
#[derive(Debug, Default)]
pub(crate) struct Situation<'a> {
    /// Time since the running turn began.
    pub(crate) working: Option<Duration>,
    /// Title of the last tool call.
    pub(crate) tool: Option<&'a str>,
    /// If the model call is being retried: the remaining wait, the attempt, and the error.
    pub(crate) retry: Option<(Duration, u32, &'a str)>,
    /// Number of queued messages.
    pub(crate) waiting: usize,
    /// Number of open requests.
    pub(crate) asks: usize,
    pub(crate) session: Option<&'a Session>,
    /// The reason why the session could not be read.
    pub(crate) problem: Option<&'a str>,
    /// Model chosen in this place.
    pub(crate) model: Option<&'a ModelRef>,
    /// Agent chosen in this place.
    pub(crate) agent: Option<&'a str>,
    /// Finished todos and all todos.
    pub(crate) todos: Option<(usize, usize)>,
}

/// The text of `/status`.
pub(crate) fn status(situation: &Situation<'_>) -> String {
    let mut lines = vec![match situation.working {
        Some(time) if situation.asks > 0 => {
            format!("⏸ Waiting for an answer, {} after it began.", lasting(time))
        }
        Some(time) => format!("⏳ Working for {}.", lasting(time)),
        None if situation.asks > 0 => "⏸ Waiting for an answer.".to_owned(),
        None => "💤 Nothing is running.".to_owned(),
    }];
    if let Some((wait, attempt, message)) = situation.retry {
        lines.push(retry(wait, attempt, message));
    }
    lines.extend(situation.tool.map(|title| format!("Last: 🔧 {title}")));
    lines.extend(situation.todos.map(|(done, all)| format!("Todos: {done} of {all} done")));
    lines.extend(counted(situation.waiting, "message is queued", "messages are queued"));
    lines.extend(counted(situation.asks, "request waits for an answer", "requests wait for an answer"));
    lines.push(match (situation.session, situation.problem) {
        (Some(it), _) => format!("Session: {} ({})", title(it), code(it.id.as_str())),
        (None, Some(problem)) => problem.to_owned(),
        (None, None) => "Session: none yet; the first message begins one".to_owned(),
    });
    let used = situation.session.and_then(|session| session.model.as_ref());
    let model = situation.model.map(|model| format!("{}/{}", model.provider_id, model.model_id));
    let model = model.or_else(|| used.map(|model| format!("{}/{}", model.provider_id, model.id)));
    lines.extend(model.map(|model| format!("Model: {}", code(&model))));
    let agent = situation.agent.or_else(|| situation.session?.agent.as_deref());
    lines.extend(agent.map(|agent| format!("Agent: {agent}")));
    let used = situation.session.and_then(|session| session.tokens.as_ref());
    lines.extend(used.filter(|used| used.input + used.output > 0).map(tokens));
    lines.join("\n")
}

fn title(session: &Session) -> String {
    if session.title.starts_with(UNTITLED) { "untitled".to_owned() } else { excerpt(&session.title, 60) }
}

/// Says that a model call failed and is retried.
pub(crate) fn retry(wait: Duration, attempt: u32, message: &str) -> String {
    let when = if wait.as_secs() == 0 { "now".to_owned() } else { format!("in {}", lasting(wait)) };
    let why = excerpt(message, 120);
    let why = why.trim_end_matches('.');
    let capital: String =
        why.chars().take(1).flat_map(char::to_uppercase).chain(why.chars().skip(1)).collect();
    format!("🔁 {capital}. Trying again {when} (attempt {attempt})")
}

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    }
}

fn tokens(tokens: &Tokens) -> String {
    let input = tokens.input + tokens.cache.read + tokens.cache.write;
    format!("Tokens: {input} in, {} out", tokens.output + tokens.reasoning)
}

/// The text of `/sessions`, numbered as `/use` expects.
pub(crate) fn sessions(sessions: &[Session], current: Option<&SessionId>, now: Millis) -> String {
    if sessions.is_empty() {
        return "There are no sessions yet. Write something to begin one.".to_owned();
    }
    let lines = (1..).zip(sessions).map(|(number, session)| {
        let mark = if current == Some(&session.id) { " ← here" } else { "" };
        let age = u64::try_from(now - session.time.updated).unwrap_or_default();
        let age = lasting(Duration::from_millis(age));
        format!("{number}. {} ({age} ago){mark}", title(session))
    });
    format!("{}\n\n/use and a number continues one of them.", lines.collect::<Vec<_>>().join("\n"))
}

/// The text of `/queue`, numbered as `/withdraw` expects.
pub(crate) fn queue(texts: &[&str]) -> String {
    if texts.is_empty() {
        return "Nothing waits.".to_owned();
    }
    let lines = (1..).zip(texts).map(|(number, text)| format!("{number}. {}", excerpt(text, 120)));
    format!("{}\n\n/withdraw and a number removes one of them.", lines.collect::<Vec<_>>().join("\n"))
}

/// Models whose names contain a word; `None` if there are none.
pub(crate) fn matching_models(models: &[ModelRef], word: &str) -> Option<String> {
    let names = models.iter().map(|it| format!("{}/{}", it.provider_id, it.model_id));
    let word = word.to_lowercase();
    let names: Vec<String> = names.filter(|name| name.to_lowercase().contains(&word)).collect();
    let head = if names.len() == 1 { "One model matches:" } else { "Several models match:" };
    let text = format!("{head}\n\n{}\n\n/model and a whole name selects one.", list(&names));
    (!names.is_empty()).then_some(text)
}

/// The text of `/model`.
pub(crate) fn models(models: &[ModelRef], chosen: Option<&ModelRef>) -> String {
    let names: Vec<String> = models.iter().map(|it| format!("{}/{}", it.provider_id, it.model_id)).collect();
    let chosen = chosen.map(|it| format!("{}/{}", it.provider_id, it.model_id));
    let current = chosen.map_or_else(
        || "The server chooses the model.".to_owned(),
        |name| format!("Chosen: {}. /model default resets it.", code(&name)),
    );
    format!("{current}\n\n{}\n\n/model and a name selects one.", list(&names))
}

/// The text of `/agent`.
pub(crate) fn agents(agents: &[Agent], chosen: Option<&str>) -> String {
    let names: Vec<String> = agents
        .iter()
        .map(|agent| match agent.description.as_deref() {
            Some(description) => format!("{} – {}", agent.name, excerpt(description, 80)),
            None => agent.name.clone(),
        })
        .collect();
    let current = chosen.map_or_else(
        || "The server chooses the agent.".to_owned(),
        |name| format!("Chosen: {name}. /agent default resets it."),
    );
    format!("{current}\n\n{}\n\n/agent and a name selects one.", list(&names))
}

fn list(names: &[String]) -> String {
    let mut lines: Vec<String> = names.iter().take(SHOWN).map(|name| format!("• {name}")).collect();
    if names.len() > SHOWN {
        lines.push(format!("… and {} more", names.len() - SHOWN));
    }
    lines.join("\n")
}
