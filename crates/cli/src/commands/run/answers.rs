//! Answers the agent's requests: by asking the user, or by the options of the command line.

use std::{collections::VecDeque, fmt::Write as _, future::pending, io, thread};

use owo_colors::OwoColorize;
use protocol::{
    Event, EventBody,
    request::{Answers as Given, PermissionReply, PermissionRequest, Question, QuestionRequest, Request},
};
use tokio::sync::mpsc;

use super::{diff, screen::Screen, words};
use crate::{
    args::{Format, Run},
    commands::host::Reply,
    terminal,
};

/// Bound on lines typed ahead of a question.
const TYPED_AHEAD: usize = 16;

/// Policy for answering requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerMode {
    Ask,
    Allow,
    Refuse,
}

/// Requests that wait for an answer, and the source of answers.
#[derive(Debug)]
pub(super) struct Answers {
    policy: AnswerMode,
    /// No option chose the policy; there is just no terminal to ask on.
    by_default: bool,
    waiting: VecDeque<Waiting>,
    /// Lines typed by the user, read from the first question on.
    lines: Option<mpsc::Receiver<String>>,
    /// The last request that was denied or skipped here, in a few words.
    refused: Option<String>,
}

/// A request shown to the user, and the answers given so far.
#[derive(Debug)]
struct Waiting {
    request: Request,
    /// Title of the subagent that asks; `None` if the agent itself asks.
    child: Option<String>,
    given: Given,
}

impl Answers {
    pub(super) fn new(options: &Run) -> Self {
        let cannot_ask = options.format == Format::Json || !terminal::can_ask();
        let (policy, by_default) = match options {
            Run { yes: true, .. } => (AnswerMode::Allow, false),
            Run { deny: true, .. } => (AnswerMode::Refuse, false),
            _ if cannot_ask => (AnswerMode::Refuse, true),
            _ => (AnswerMode::Ask, false),
        };
        Self { policy, by_default, waiting: VecDeque::new(), lines: None, refused: None }
    }

    /// The reason why a turn is blocked, as a sentence.
    pub(super) fn blocked(&self) -> String {
        let what = self.refused.as_deref().unwrap_or("a permission was denied or a question was skipped");
        format!("blocked: {what}")
    }

    /// True while a request waits for the user.
    pub(super) fn is_asking(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Records new requests (of the subagent with the title `child`, if one asks) and answers given by other clients.
    /// Returns the reply if the policy decides it.
    pub(super) fn see(&mut self, event: &Event, child: Option<&str>, screen: &mut Screen) -> Option<Reply> {
        let request = match &event.body {
            EventBody::PermissionAsked(it) => Request::Permission(it.clone()),
            EventBody::QuestionAsked(it) => Request::Question(it.clone()),
            EventBody::PermissionReplied(it) => return self.forget(it.request_id.as_str()),
            EventBody::QuestionReplied(it) => return self.forget(it.request_id.as_str()),
            EventBody::QuestionRejected(it) => return self.forget(it.request_id.as_str()),
            _ => return None,
        };
        match self.policy {
            AnswerMode::Allow => return Some(allow(&request)),
            AnswerMode::Refuse => {
                screen.report(&self.explain(&request));
                return Some(self.refuse(&request));
            }
            AnswerMode::Ask => {}
        }
        screen.hold(true);
        self.lines.get_or_insert_with(read_lines);
        self.waiting.push_back(Waiting { request, child: child.map(str::to_owned), given: Given::new() });
        if self.waiting.len() == 1 {
            self.ask();
        }
        None
    }

    /// Says what is denied and how to allow it, because no user sees the request.
    fn explain(&self, request: &Request) -> Vec<String> {
        let why = if self.by_default { ", because there is no terminal to ask on" } else { " (--deny)" };
        let denied = match request {
            Request::Permission(_) => "denied",
            Request::Question(_) => "skipped",
        };
        let mut lines = vec![format!("{} {}{why}", format!("{denied}:").yellow(), words::brief(request))];
        if !self.by_default {
            return lines;
        }
        let rule = match request {
            Request::Permission(request) => words::rule(request),
            Request::Question(_) => None,
        };
        let rule = rule.map(|rule| format!(", or {rule} in opencode.json allows this")).unwrap_or_default();
        let flag = match request {
            Request::Permission(_) => "--yes approves everything",
            Request::Question(_) => "--yes answers with the first choice",
        };
        lines.push(format!("{} {flag}{rule}", "hint:".cyan()));
        lines
    }

    fn refuse(&mut self, request: &Request) -> Reply {
        let brief = words::brief(request);
        let (reply, verb) = match request {
            Request::Permission(request) => {
                (Reply::Permission(request.id.clone(), PermissionReply::Reject), "denied")
            }
            Request::Question(request) => (Reply::Dismissed(request.id.clone()), "skipped"),
        };
        self.refused = Some(format!("{brief} was {verb}"));
        reply
    }

    fn forget(&mut self, id: &str) -> Option<Reply> {
        let was_asked = self.waiting.front().is_some_and(|waiting| waiting.request.id() == id);
        self.waiting.retain(|waiting| waiting.request.id() != id);
        if was_asked {
            terminal::note("");
            self.ask();
        }
        None
    }

    /// The next line typed while a request waits; `None` at the end of input.
    pub(super) async fn line(&mut self) -> Option<String> {
        match &mut self.lines {
            Some(lines) if !self.waiting.is_empty() => lines.recv().await,
            _ => pending().await,
        }
    }

    /// Parses a line as the answer to the current question; asks again if it is invalid.
    pub(super) fn take(&mut self, line: Option<String>) -> Option<Reply> {
        let mut waiting = self.waiting.pop_front()?;
        let reply = match line {
            // Input has ended, so no user can approve anything any more.
            None => {
                self.policy = AnswerMode::Refuse;
                Some(self.refuse(&waiting.request))
            }
            Some(line) => waiting.answer(line.trim()),
        };
        match &reply {
            None => self.waiting.push_front(waiting),
            Some(Reply::Permission(_, PermissionReply::Reject) | Reply::Dismissed(_)) => {
                self.refuse(&waiting.request);
            }
            Some(_) => {}
        }
        self.ask();
        reply
    }

    fn ask(&self) {
        let Some(Waiting { request, child, given }) = self.waiting.front() else { return };
        match request {
            Request::Permission(request) => terminal::hint(&permission(request, child.as_deref())),
            Request::Question(request) => {
                if let Some(question) = request.questions.get(given.len()) {
                    terminal::hint(&options(question));
                }
            }
        }
    }
}

impl Waiting {
    fn answer(&mut self, line: &str) -> Option<Reply> {
        match &self.request {
            Request::Permission(request) => {
                let reply = match line.to_ascii_lowercase().as_str() {
                    "y" | "yes" => PermissionReply::Once,
                    "a" | "always" if !request.always.is_empty() => PermissionReply::Always,
                    "n" | "no" => PermissionReply::Reject,
                    _ => return None,
                };
                Some(Reply::Permission(request.id.clone(), reply))
            }
            Request::Question(request) => {
                if line.is_empty() {
                    return Some(Reply::Dismissed(request.id.clone()));
                }
                if let Some(question) = request.questions.get(self.given.len()) {
                    self.given.push(choose(question, line)?);
                }
                let done = self.given.len() >= request.questions.len();
                done.then(|| Reply::Question(request.id.clone(), self.given.clone()))
            }
        }
    }
}

/// Parses option numbers (separated by commas where several are allowed) or the user's own answer.
fn choose(question: &Question, line: &str) -> Option<Vec<String>> {
    let label = |text: &str| {
        let number: usize = text.trim().parse().ok()?;
        Some(question.options.get(number.checked_sub(1)?)?.label.clone())
    };
    let several: Option<Vec<String>> = line.split(',').map(label).collect();
    match several {
        Some(labels) if labels.len() == 1 || question.multiple == Some(true) => Some(labels),
        _ if question.custom != Some(false) => Some(vec![line.to_owned()]),
        _ => None,
    }
}

fn allow(request: &Request) -> Reply {
    match request {
        Request::Permission(request) => Reply::Permission(request.id.clone(), PermissionReply::Once),
        Request::Question(request) => Reply::Question(request.id.clone(), first_choices(request)),
    }
}

fn first_choices(request: &QuestionRequest) -> Given {
    let first = |question: &Question| question.options.iter().take(1).map(|it| it.label.clone()).collect();
    request.questions.iter().map(first).collect()
}

/// The prompt of a permission request: who wants what, exactly, and what `always` would save.
fn permission(request: &PermissionRequest, child: Option<&str>) -> String {
    let mut text = format!("{}\n", words::headline(request, child).yellow().bold());
    let lines = words::subject(request).into_iter().map(|line| format!("  {}", line.bold()));
    for line in lines.chain(diff::of_metadata(&request.metadata)) {
        let _ = writeln!(text, "{line}");
    }
    let always = words::always(request);
    if let Some(saved) = &always {
        let _ = writeln!(text, "{}", terminal::wrapped(&format!("Always would allow {saved}.")).dimmed());
    }
    let always = if always.is_some() { "[a]lways, " } else { "" };
    format!("{text}Allow? [y]es, {always}[n]o: ")
}

fn options(question: &Question) -> String {
    let asked = terminal::wrapped(&terminal::clean(&question.question));
    let mut text = format!("{}\n", asked.bold());
    for (index, option) in question.options.iter().enumerate() {
        let about = terminal::clean(&option.description);
        let gap = if about.is_empty() { "" } else { "  " };
        let label = terminal::clean(&option.label);
        // Writing into memory cannot fail.
        let _ = writeln!(text, "  {}. {label}{gap}{}", index + 1, about.dimmed());
    }
    format!("{text}{}", words::how_to_answer(question))
}

/// Reads lines on a separate thread, which does not delay the end of the program.
fn read_lines() -> mpsc::Receiver<String> {
    let (typed, lines) = mpsc::channel(TYPED_AHEAD);
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if typed.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(multiple: bool, custom: bool) -> Question {
        let options =
            [json!({ "label": "Red", "description": "" }), json!({ "label": "Blue", "description": "" })];
        let question = json!({ "question": "Which?", "header": "h", "options": options, "multiple": multiple, "custom": custom });
        serde_json::from_value(question).unwrap()
    }

    #[test]
    fn options_are_chosen_by_number_and_other_text_is_a_custom_answer() {
        let one = question(false, true);
        assert_eq!(choose(&one, "2"), Some(vec!["Blue".into()]));
        assert_eq!(choose(&one, "green"), Some(vec!["green".into()]));
        assert_eq!(choose(&one, "1,2"), Some(vec!["1,2".into()]));
        assert_eq!(choose(&question(true, false), "1, 2"), Some(vec!["Red".into(), "Blue".into()]));
        assert_eq!(choose(&question(false, false), "green"), None);
        assert_eq!(choose(&question(false, false), "0"), None);
    }

    #[test]
    fn a_permission_is_asked_again_until_the_answer_is_valid() {
        let request = json!({
            "id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["rm x"], "always": [],
        });
        let request = Request::Permission(serde_json::from_value(request).unwrap());
        let mut answers = Answers {
            policy: AnswerMode::Ask,
            by_default: false,
            waiting: VecDeque::from([Waiting { request, child: None, given: Given::new() }]),
            lines: None,
            refused: None,
        };
        assert!(answers.take(Some("perhaps".into())).is_none());
        assert!(answers.take(Some("always".into())).is_none(), "there is nothing to save");
        let reply = answers.take(Some(" N ".into())).unwrap();
        assert!(matches!(reply, Reply::Permission(_, PermissionReply::Reject)), "{reply:?}");
        assert!(answers.waiting.is_empty());
        assert_eq!(answers.blocked(), "blocked: permission for `rm x` was denied");
    }

    #[test]
    fn a_permission_request_shows_the_command_and_what_always_would_save() {
        let request = json!({
            "id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["touch x", "echo y"],
            "always": ["touch *", "echo *"], "metadata": { "command": "touch x && echo y" },
        });
        let request: PermissionRequest = serde_json::from_value(request).unwrap();
        let shown = anstream::adapter::strip_str(&permission(&request, Some("Tidy up"))).to_string();
        insta::assert_snapshot!(shown, @r#"
        The subagent "Tidy up" wants to run a command:
          touch x && echo y
        Always would allow `touch *`, `echo *` in this directory.
        Allow? [y]es, [a]lways, [n]o: 
        "#);
    }
}
