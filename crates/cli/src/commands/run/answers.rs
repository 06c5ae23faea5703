//! Answers the agent's requests: by asking the user, or by the options of the command line.

use std::{collections::VecDeque, fmt::Write as _, future::pending, io, thread};

use owo_colors::OwoColorize;
use protocol::{
    Event, EventBody,
    request::{Answers as Given, PermissionReply, PermissionRequest, Question, QuestionRequest, Request},
};
use tokio::sync::mpsc;

use super::{host::Reply, screen::Screen};
use crate::{
    args::{Format, Run},
    terminal,
};

/// Bound on lines typed ahead of a question.
const TYPED_AHEAD: usize = 16;

/// Policy for answering requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Ask,
    Allow,
    Refuse,
}

/// Requests that wait for an answer, and the source of answers.
#[derive(Debug)]
pub(super) struct Answers {
    policy: Policy,
    /// No option chose the policy; there is just no terminal to ask on.
    by_default: bool,
    waiting: VecDeque<Waiting>,
    /// Lines typed by the user, read from the first question on.
    lines: Option<mpsc::Receiver<String>>,
}

/// A request shown to the user, and the answers given so far.
#[derive(Debug)]
struct Waiting {
    request: Request,
    given: Given,
}

impl Answers {
    pub(super) fn new(options: &Run) -> Self {
        let cannot_ask = options.format == Format::Json || !terminal::can_ask();
        let (policy, by_default) = match options {
            Run { yes: true, .. } => (Policy::Allow, false),
            Run { deny: true, .. } => (Policy::Refuse, false),
            _ if cannot_ask => (Policy::Refuse, true),
            _ => (Policy::Ask, false),
        };
        Self { policy, by_default, waiting: VecDeque::new(), lines: None }
    }

    pub(super) fn refuses_by_default(&self) -> bool {
        self.by_default
    }

    /// True while a request waits for the user.
    pub(super) fn is_asking(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Records new requests and answers given by other clients. Returns the reply if the policy decides it.
    pub(super) fn see(&mut self, event: &Event, screen: &mut Screen) -> Option<Reply> {
        let request = match &event.body {
            EventBody::PermissionAsked(it) => Request::Permission(it.clone()),
            EventBody::QuestionAsked(it) => Request::Question(it.clone()),
            EventBody::PermissionReplied(it) => return self.forget(it.request_id.as_str()),
            EventBody::QuestionReplied(it) => return self.forget(it.request_id.as_str()),
            EventBody::QuestionRejected(it) => return self.forget(it.request_id.as_str()),
            _ => return None,
        };
        match self.policy {
            Policy::Allow => return Some(allow(&request)),
            Policy::Refuse => return Some(refuse(&request)),
            Policy::Ask => {}
        }
        screen.hold(true);
        self.lines.get_or_insert_with(read_lines);
        self.waiting.push_back(Waiting { request, given: Given::new() });
        if self.waiting.len() == 1 {
            self.ask();
        }
        None
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
        let waiting = self.waiting.front_mut()?;
        let reply = match line {
            // Input has ended, so no user can approve anything any more.
            None => {
                self.policy = Policy::Refuse;
                Some(refuse(&waiting.request))
            }
            Some(line) => waiting.answer(line.trim()),
        };
        if reply.is_some() {
            self.waiting.pop_front();
        }
        self.ask();
        reply
    }

    fn ask(&self) {
        let Some(Waiting { request, given }) = self.waiting.front() else { return };
        match request {
            Request::Permission(request) => terminal::hint(&permission(request)),
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
                    "a" | "always" => PermissionReply::Always,
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

fn refuse(request: &Request) -> Reply {
    match request {
        Request::Permission(request) => Reply::Permission(request.id.clone(), PermissionReply::Reject),
        Request::Question(request) => Reply::Dismissed(request.id.clone()),
    }
}

fn permission(request: &PermissionRequest) -> String {
    let what = format!("{} {}", request.permission, request.patterns.join(", "));
    format!("{} {} [y]es, [a]lways, [n]o: ", "allow".yellow().bold(), what.bold())
}

fn options(question: &Question) -> String {
    let mut text = format!("{}\n", question.question.bold());
    for (index, option) in question.options.iter().enumerate() {
        let (number, about) = (index + 1, option.description.dimmed().to_string());
        // Writing into memory cannot fail.
        let _ = writeln!(text, "  {number}. {}  {about}", option.label);
    }
    let how = if question.multiple == Some(true) { "numbers separated by commas" } else { "a number" };
    let own = if question.custom == Some(false) { "" } else { " or your own answer" };
    format!("{text}Enter {how}{own} (empty to skip): ")
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
            policy: Policy::Ask,
            by_default: false,
            waiting: VecDeque::from([Waiting { request, given: Given::new() }]),
            lines: None,
        };
        assert!(answers.take(Some("perhaps".into())).is_none());
        let reply = answers.take(Some(" A ".into())).unwrap();
        assert!(matches!(reply, Reply::Permission(_, PermissionReply::Always)), "{reply:?}");
        assert!(answers.waiting.is_empty());
    }
}
