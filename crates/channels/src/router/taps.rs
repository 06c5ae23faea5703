//! Buttons: their tokens, and the handling of taps.

use std::collections::BTreeSet;

use protocol::request::{PermissionReply, Question};

use super::{
    asks::{Effect, Open, Verdict},
    worker::Worker,
};
use crate::{
    Button, Features, Post,
    ledger::{self, Ask, Asked, PendingUpdate, Roles},
};

/// A parsed button token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tap {
    /// Number of the request in the ledger.
    number: i64,
    choice: Choice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Permission(PermissionReply),
    /// Question and option, both counted from 0.
    Option(usize, usize),
    /// The user has finished choosing from a question with several choices.
    Enough(usize),
}

/// Parses a button's token.
fn parse(token: &str) -> Option<Tap> {
    let mut fields = token.split('.');
    let kind = fields.next()?;
    let number = fields.next()?.parse().ok()?;
    let choice = match (kind, fields.next()?, fields.next()) {
        ("p", "once", None) => Choice::Permission(PermissionReply::Once),
        ("p", "always", None) => Choice::Permission(PermissionReply::Always),
        ("p", "deny", None) => Choice::Permission(PermissionReply::Reject),
        ("q", question, Some("enough")) => Choice::Enough(question.parse().ok()?),
        ("q", question, Some(option)) => Choice::Option(question.parse().ok()?, option.parse().ok()?),
        _ => return None,
    };
    Some(Tap { number, choice })
}

fn button(label: impl Into<String>, token: String) -> Button {
    Button { label: label.into(), token }
}

/// The buttons of a request in its current state.
pub(super) fn buttons(number: i64, ask: &Ask, features: Features) -> Vec<Button> {
    match &ask.asked {
        Asked::Permission(_) => permission_buttons(number, features),
        Asked::Question(request) => {
            let index = ask.answers.len();
            let question = request.questions.get(index);
            question.map(|it| question_buttons(number, index, it, &ask.marked, features)).unwrap_or_default()
        }
    }
}

pub(super) fn permission_buttons(number: i64, features: Features) -> Vec<Button> {
    let choices = [("Once", "once"), ("Always", "always"), ("Deny", "deny")];
    if features.buttons < choices.len() {
        return Vec::new();
    }
    choices.iter().map(|(label, choice)| button(*label, format!("p.{number}.{choice}"))).collect()
}

/// The buttons of a question; none if they do not fit. Several choices are marked in the buttons, which requires a
/// service that can edit messages.
pub(super) fn question_buttons(
    number: i64,
    index: usize,
    question: &Question,
    marked: &BTreeSet<usize>,
    features: Features,
) -> Vec<Button> {
    let is_multiple = question.multiple == Some(true);
    let count = question.options.len() + usize::from(is_multiple);
    if count > features.buttons || (is_multiple && features.edit.is_none()) || question.options.is_empty() {
        return Vec::new();
    }
    let options = question.options.iter().enumerate().map(|(option, it)| {
        let mark = if marked.contains(&option) { "✓ " } else { "" };
        button(format!("{mark}{}", it.label), format!("q.{number}.{index}.{option}"))
    });
    let enough = is_multiple.then(|| button("Done", format!("q.{number}.{index}.enough")));
    options.chain(enough).collect()
}

impl Worker {
    /// Handles a tap on a button.
    pub(super) async fn tap(
        &mut self,
        pending: &PendingUpdate,
        token: &str,
        receipt: Option<String>,
        roles: Roles,
    ) -> Result<(), ledger::Error> {
        let words = self.tapped(pending, token, roles).await?;
        if let Some(receipt) = receipt {
            self.context().couriers.confirm_tap(&self.place, receipt, words.map(str::to_owned));
        }
        self.conclude(pending, Vec::new()).await
    }

    /// Carries out a tap. Returns a hint for the user, if there is one.
    async fn tapped(
        &mut self,
        pending: &PendingUpdate,
        token: &str,
        roles: Roles,
    ) -> Result<Option<&'static str>, ledger::Error> {
        const GONE: Option<&str> = Some("That request is already closed.");
        let Some(tap) = parse(token) else { return Ok(Some("This button is not valid here.")) };
        let open = self.open_asks().await?.into_iter().find(|open| open.number == tap.number);
        let Some(open) = open else { return Ok(GONE) };
        let may = match open.ask.asked {
            Asked::Permission(_) => roles.approve,
            Asked::Question(_) => roles.prompt,
        };
        if !may {
            return Ok(Some("You cannot decide this: another user has to answer."));
        }
        let verdict = match (&open.ask.asked, tap.choice) {
            (Asked::Permission(_), Choice::Permission(reply)) => Verdict::Permission(reply),
            (Asked::Question(request), Choice::Option(index, option)) if index == open.ask.answers.len() => {
                let Some(question) = request.questions.get(index) else { return Ok(GONE) };
                let Some(picked) = question.options.get(option) else { return Ok(GONE) };
                if question.multiple == Some(true) {
                    self.toggle(open, option, pending).await?;
                    return Ok(None);
                }
                Verdict::Answer(vec![picked.label.clone()])
            }
            (Asked::Question(request), Choice::Enough(index)) if index == open.ask.answers.len() => {
                let Some(question) = request.questions.get(index) else { return Ok(GONE) };
                let labels = open.ask.marked.iter().filter_map(|option| question.options.get(*option));
                let labels: Vec<String> = labels.map(|option| option.label.clone()).collect();
                if labels.is_empty() {
                    return Ok(Some("Choose something first."));
                }
                Verdict::Answer(labels)
            }
            _ => return Ok(GONE),
        };
        Ok(match self.decide(open, verdict, pending).await? {
            Effect::Taken => None,
            Effect::Late => GONE,
            Effect::Failed => Some("The server cannot be reached right now. Try again in a moment."),
        })
    }

    /// Marks or unmarks an option of a question with several choices, and shows the change.
    async fn toggle(
        &self,
        mut open: Open,
        option: usize,
        pending: &PendingUpdate,
    ) -> Result<(), ledger::Error> {
        if !open.ask.marked.remove(&option) {
            open.ask.marked.insert(option);
        }
        self.ledger().mark_choice(open.number, open.ask.clone(), pending.id).await?;
        self.show_mark(&open);
        Ok(())
    }

    /// Shows marked options again, because the gateway may have stopped before they were shown.
    pub(super) async fn show_marks(&self) -> Result<(), ledger::Error> {
        for open in self.open_asks().await?.iter().filter(|open| !open.ask.marked.is_empty()) {
            self.show_mark(open);
        }
        Ok(())
    }

    fn show_mark(&self, open: &Open) {
        let (Asked::Question(request), Some(post)) = (&open.ask.asked, open.post) else { return };
        let text = crate::words::question(request, open.ask.answers.len(), None, true);
        let buttons = buttons(open.number, &open.ask, self.adapter.features());
        self.context().couriers.replace(&self.place, post, Post { buttons, ..Post::text(text) });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::split::{Limit, Unit};

    fn features(buttons: usize, edit: bool) -> Features {
        Features {
            typing: None,
            edit: edit.then_some(Duration::from_secs(1)),
            buttons,
            threads: false,
            streaming: false,
            files: None,
            text: Limit { length: 4_096, unit: Unit::Utf16 },
        }
    }

    fn question(count: usize, multiple: bool) -> Question {
        let options: Vec<_> =
            (0..count).map(|it| json!({ "label": format!("Choice {it}"), "description": "" })).collect();
        serde_json::from_value(
            json!({ "question": "?", "header": "", "options": options, "multiple": multiple }),
        )
        .unwrap()
    }

    #[test]
    fn button_tokens_are_short_and_can_be_parsed() {
        let number = i64::MAX;
        let tokens = permission_buttons(number, features(3, true));
        let choices: Vec<_> = tokens.iter().map(|it| parse(&it.token).unwrap()).collect();
        assert_eq!(choices[2], Tap { number, choice: Choice::Permission(PermissionReply::Reject) });
        let tokens = question_buttons(number, 7, &question(25, true), &BTreeSet::new(), features(26, true));
        assert_eq!(parse(&tokens[24].token), Some(Tap { number, choice: Choice::Option(7, 24) }));
        assert_eq!(parse(&tokens[25].token), Some(Tap { number, choice: Choice::Enough(7) }));
        assert!(tokens.iter().all(|it| it.token.len() <= 40 && it.token.is_ascii()));
    }

    #[test]
    fn an_invalid_token_is_ignored() {
        for token in ["", "p", "p.1", "p.x.once", "p.1.maybe", "q.1.2", "q.1.x.2", "q.1.1.-1", "z.1.1.1"] {
            assert_eq!(parse(token), None, "{token}");
        }
    }

    #[test]
    fn there_are_buttons_only_where_all_fit_and_work() {
        let count = |question: &Question, features| {
            question_buttons(1, 0, question, &BTreeSet::new(), features).len()
        };
        assert_eq!(count(&question(3, false), features(3, false)), 3);
        assert_eq!(count(&question(4, false), features(3, true)), 0);
        assert_eq!(count(&question(3, true), features(3, true)), 0, "there has to be room for Done");
        assert_eq!(count(&question(3, true), features(4, true)), 4);
        assert_eq!(count(&question(3, true), features(10, false)), 0, "marks cannot be shown");
        assert!(permission_buttons(1, features(2, true)).is_empty());
    }

    #[test]
    fn chosen_options_are_marked() {
        let buttons = question_buttons(1, 0, &question(2, true), &BTreeSet::from([1]), features(10, true));
        assert_eq!(buttons[1].label, "✓ Choice 1");
        assert_eq!(buttons[0].label, "Choice 0");
    }
}
