//! Texts of permission requests and questions, and of their outcomes.

use protocol::request::{PermissionReply, PermissionRequest, Question, QuestionOption, QuestionRequest};

use super::{clip, code, excerpt};

/// Maximum length of a permission's target, in characters.
const TARGET: usize = 600;

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision<'a> {
    /// A user answered.
    Answered {
        /// Name of the user.
        by: &'a str,
        answer: &'a str,
    },
    /// A user dismissed it.
    Dismissed {
        /// Name of the user.
        by: &'a str,
    },
    /// It was answered in another client, or the turn that asked has ended.
    Elsewhere,
    Expired,
}

/// Asks for a permission. `directory` is that of the session, `child` the title of the subagent that asks.
pub(crate) fn permission(
    request: &PermissionRequest,
    directory: Option<&str>,
    child: Option<&str>,
    has_buttons: bool,
) -> String {
    let mut lines = vec![format!("🔐 **{}**", headline(&request.permission))];
    let target = target(request);
    if !target.is_empty() {
        lines.push(code(&clip(&target, TARGET)));
    }
    lines.extend(directory.map(|directory| format!("in {}", code(directory))));
    lines.extend(child.map(asked_by));
    if !request.always.is_empty() {
        let always: Vec<String> = request.always.iter().take(4).map(|it| code(&excerpt(it, 80))).collect();
        lines.push(format!("“Always” would allow {} from now on.", always.join(", ")));
    }
    let how = if has_buttons { "Choose, or write" } else { "Write" };
    lines.push(format!(
        "\n{how} 1 (once), 2 (always) or 3 (deny). Other words deny it and tell the agent why."
    ));
    lines.join("\n")
}

fn headline(permission: &str) -> String {
    match permission {
        "bash" => "The agent wants to run a command:".to_owned(),
        "edit" => "The agent wants to change a file:".to_owned(),
        "read" => "The agent wants to read a file:".to_owned(),
        "webfetch" => "The agent wants to fetch a page:".to_owned(),
        "external_directory" => "The agent wants to leave the project's directory:".to_owned(),
        "doom_loop" => "The agent repeats the same call. Allow it to continue?".to_owned(),
        permission => format!("The agent asks for permission: {permission}"),
    }
}

fn asked_by(child: &str) -> String {
    format!("asked by the subagent “{}”", excerpt(child, 80))
}

/// The target of a permission: the command, path or address if there is one, else the patterns.
fn target(request: &PermissionRequest) -> String {
    let command = ["command", "filepath", "filePath", "path", "url"]
        .iter()
        .find_map(|name| request.metadata.get(*name)?.as_str())
        .filter(|it| !it.is_empty());
    command.map_or_else(|| request.patterns.join("\n"), str::to_owned)
}

/// The text that replaces a permission request when it is closed.
pub(crate) fn permission_outcome(request: &PermissionRequest, decision: Decision<'_>) -> String {
    let target = excerpt(&target(request), 120);
    let about = if target.is_empty() { String::new() } else { format!(" {}", code(&target)) };
    let about = format!("{}{about}", request.permission);
    match decision {
        Decision::Answered { by, answer } => format!("🔐 {about}: {answer} ({by})."),
        Decision::Dismissed { by } => format!("🔐 {about}: denied ({by})."),
        Decision::Elsewhere => format!("🔐 {about}: no longer needs an answer."),
        Decision::Expired => format!("🔐 {about}: denied, because no answer came in time."),
    }
}

/// The outcome of a permission reply as a phrase.
pub(crate) fn replied(reply: PermissionReply) -> &'static str {
    match reply {
        PermissionReply::Once => "allowed once",
        PermissionReply::Always => "allowed from now on",
        PermissionReply::Reject => "denied",
    }
}

/// Asks one question of a request. `index` counts from 0.
pub(crate) fn question(
    request: &QuestionRequest,
    index: usize,
    child: Option<&str>,
    has_buttons: bool,
) -> String {
    let Some(question) = request.questions.get(index) else { return String::new() };
    let header = question.header.trim();
    let mut head = if header.is_empty() { "❓".to_owned() } else { format!("❓ **{header}**") };
    if request.questions.len() > 1 {
        head = format!("{head} ({} of {})", index + 1, request.questions.len());
    }
    let mut lines = vec![head, question.question.trim().to_owned()];
    lines.extend(child.map(asked_by));
    lines.push(String::new());
    if !question.options.is_empty() {
        lines.extend((1..).zip(&question.options).map(|(number, option)| choice(number, option)));
        lines.push(String::new());
    }
    let how = match (question.options.is_empty(), has_buttons, is_free(question)) {
        (true, ..) => "Write your answer.",
        (false, true, true) => "Choose, or write a number or your own answer.",
        (false, true, false) => "Choose, or write a number.",
        (false, false, true) => "Write a number or your own answer.",
        (false, false, false) => "Write a number.",
    };
    let several = if question.multiple == Some(true) {
        " Several are possible: separate them with commas."
    } else {
        ""
    };
    lines.push(format!("{how}{several} /skip dismisses it."));
    lines.join("\n")
}

fn choice(number: usize, option: &QuestionOption) -> String {
    let description = option.description.trim();
    if description.is_empty() || description == option.label {
        return format!("{number}. {}", option.label);
    }
    format!("{number}. {} – {}", option.label, excerpt(description, 200))
}

/// True if the user may answer in their own words.
pub(crate) fn is_free(question: &Question) -> bool {
    question.custom != Some(false) || question.options.is_empty()
}

/// The text that replaces a question when it is closed.
pub(crate) fn question_outcome(request: &QuestionRequest, index: usize, decision: Decision<'_>) -> String {
    let question = request.questions.get(index).map(|question| excerpt(&question.question, 200));
    let question = question.unwrap_or_default();
    match decision {
        Decision::Answered { by, answer } => format!("❓ {question}\n✅ {answer} ({by})"),
        Decision::Dismissed { by } => format!("❓ {question}\nDismissed ({by})."),
        Decision::Elsewhere => format!("❓ {question}\nNo longer needs an answer."),
        Decision::Expired => format!("❓ {question}\nDismissed, because no answer came in time."),
    }
}
