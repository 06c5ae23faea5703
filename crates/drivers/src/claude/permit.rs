//! Converts the permission requests and questions of Claude Code, and the user's answers to them.

use std::path::Path;

use protocol::agent_event::{Answer, Ask};
use protocol::request::{PermissionReply, Question, QuestionOption};
use protocol::{Extra, Rest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::tools::Call;
use super::wire::Permit;

/// The tool that asks the user a question.
const QUESTION: &str = "AskUserQuestion";

/// The answer to a control request of Claude Code.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    /// Claude Code's id of the request.
    pub(super) id: String,
    pub(super) response: Value,
    /// True if the user refused, which ends the turn that asked.
    pub(super) refused: bool,
}

#[derive(Deserialize)]
struct Asked {
    question: String,
    #[serde(default)]
    header: String,
    #[serde(default)]
    options: Vec<Choice>,
    #[serde(default, rename = "multiSelect")]
    multiple: bool,
}

#[derive(Deserialize)]
struct Choice {
    label: String,
    #[serde(default)]
    description: String,
}

/// The request to show to the user.
pub(super) fn ask(permit: &Permit, directory: &Path) -> Ask {
    if permit.tool_name == QUESTION {
        return Ask::Question { questions: questions(permit), call: permit.tool_use_id.clone() };
    }
    Call::new(&permit.tool_name, &permit.input, directory).ask(permit, directory)
}

fn questions(permit: &Permit) -> Vec<Question> {
    let asked = permit.input.get("questions").and_then(Value::as_array);
    asked
        .into_iter()
        .flatten()
        .filter_map(|question| serde_json::from_value::<Asked>(question.clone()).ok())
        .map(|asked| Question {
            question: asked.question,
            header: asked.header,
            options: asked
                .options
                .into_iter()
                .map(|Choice { label, description }| QuestionOption { label, description, extra: Rest::NONE })
                .collect(),
            multiple: asked.multiple.then_some(true),
            custom: None,
            extra: Extra::new(),
        })
        .collect()
}

/// Converts the user's answer into the reply to Claude Code.
pub(super) fn reply(id: String, permit: &Permit, answer: Answer) -> Reply {
    let said = |response, refused| Reply { id, response, refused };
    match answer {
        Answer::Once | Answer::Always | Answer::Default(PermissionReply::Once | PermissionReply::Always) => {
            said(json!({ "behavior": "allow", "updatedInput": permit.input }), false)
        }
        Answer::Answers(answers) => {
            let asked = questions(permit);
            let answers: Extra = asked
                .into_iter()
                .zip(answers)
                .map(|(question, labels)| (question.question, labels.join(", ").into()))
                .collect();
            let mut input = permit.input.clone();
            input.insert("answers".to_owned(), Value::Object(answers.into_iter().collect()));
            said(json!({ "behavior": "allow", "updatedInput": input }), false)
        }
        Answer::Rejected { message: Some(message) } => said(deny(&message, false), false),
        Answer::Rejected { message: None } | Answer::Default(PermissionReply::Reject) => {
            said(deny("The user refused this.", true), true)
        }
        Answer::Withdrawn => said(deny("The user did not answer in time.", true), true),
    }
}

fn deny(message: &str, interrupt: bool) -> Value {
    json!({ "behavior": "deny", "message": message, "interrupt": interrupt })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permit(name: &str, input: Value) -> Permit {
        let input = serde_json::from_value(input).unwrap();
        Permit { tool_name: name.into(), input, tool_use_id: Some("toolu_1".into()), agent_id: None }
    }

    #[test]
    fn answers_become_control_responses() {
        let bash = permit("Bash", json!({ "command": "ls" }));
        let told = |answer| reply("1".into(), &bash, answer);
        let allowed = json!({ "behavior": "allow", "updatedInput": { "command": "ls" } });
        for answer in [Answer::Once, Answer::Always, Answer::Default(PermissionReply::Once)] {
            assert_eq!(told(answer).response, allowed);
        }
        let corrected = told(Answer::Rejected { message: Some("use make".into()) });
        assert_eq!(
            corrected.response,
            json!({ "behavior": "deny", "message": "use make", "interrupt": false })
        );
        assert!(!corrected.refused);
        for answer in [Answer::Rejected { message: None }, Answer::Withdrawn] {
            let refused = told(answer);
            assert!(refused.refused && refused.response["interrupt"] == json!(true));
        }
    }

    #[test]
    fn a_question_is_asked_and_answered() {
        let asked = json!({ "questions": [
            { "question": "Which?", "header": "W", "multiSelect": true, "options": [{ "label": "Red" }] },
            { "question": "Why?" },
        ] });
        let permit = permit(QUESTION, asked);
        let questions = questions(&permit);
        assert_eq!(questions.len(), 2);
        assert_eq!((questions[0].multiple, questions[0].options[0].label.as_str()), (Some(true), "Red"));
        let answers = Answer::Answers(vec![vec!["Red".into(), "Blue".into()], vec!["so".into()]]);
        let told = reply("1".into(), &permit, answers).response;
        assert_eq!(told["updatedInput"]["answers"], json!({ "Which?": "Red, Blue", "Why?": "so" }));
    }
}
