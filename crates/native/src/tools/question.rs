//! `question`: asks the user.

use protocol::agent_event::{Answer, Ask};
use protocol::request::{Answers, Question as Asked};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{BuiltIn, Call, Output, ToolFailure, object};

#[derive(Deserialize)]
pub(super) struct Input {
    questions: Vec<Asked>,
}

pub(super) struct Question;

impl BuiltIn for Question {
    const NAME: &'static str = "question";

    type Input = Input;

    fn description(&self) -> String {
        "Asks the user one or more questions with answers to choose from, and waits. They may also answer in their own \
         words. Use it when you cannot go on without the answer; put the answer you recommend first."
            .to_owned()
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "question": { "type": "string", "description": "The whole question" },
                            "header": { "type": "string", "description": "A very short label, at most 30 characters" },
                            "options": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "label": { "type": "string", "description": "The answer, a few words" },
                                        "description": { "type": "string", "description": "What choosing it means" },
                                    },
                                    "required": ["label", "description"],
                                },
                            },
                            "multiple": { "type": "boolean", "description": "True if several answers may be chosen" },
                        },
                        "required": ["question", "header", "options"],
                    },
                },
            },
            "required": ["questions"],
            "additionalProperties": false,
        })
    }

    fn check(&self, input: &Input) -> Result<(), String> {
        match input.questions.as_slice() {
            [] => Err("there must be at least one question".to_owned()),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, Input { questions }: Input) -> Result<Output, ToolFailure> {
        let ask = Ask::Question { questions: questions.clone(), call: Some(call.id.to_owned()) };
        match call.turn.ask(ask).await {
            Answer::Answers(answers) => Ok(show(&questions, &answers)),
            Answer::Withdrawn => {
                Err(ToolFailure::Refused("The question was withdrawn without an answer.".to_owned()))
            }
            Answer::Rejected { .. } | Answer::Once | Answer::Always | Answer::Default(_) => {
                Err(ToolFailure::Refused("The user dismissed this question".to_owned()))
            }
        }
    }
}

fn show(questions: &[Asked], answers: &Answers) -> Output {
    let told: Vec<String> = questions
        .iter()
        .enumerate()
        .map(|(at, asked)| {
            let answer = answers.get(at).filter(|labels| !labels.is_empty()).map(|labels| labels.join(", "));
            format!("\"{}\"=\"{}\"", asked.question, answer.as_deref().unwrap_or("Unanswered"))
        })
        .collect();
    let count = questions.len();
    Output::new(
        format!("Asked {count} question{}", if count == 1 { "" } else { "s" }),
        format!(
            "User has answered your questions: {}. You can now continue with the user's answers in mind.",
            told.join(", ")
        ),
        object(json!({ "answers": answers, "truncated": false })),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_listed_question_by_question() {
        let asked = |question: &str| {
            serde_json::from_value::<Asked>(json!({ "question": question, "header": "h", "options": [] }))
                .unwrap()
        };
        let output =
            show(&[asked("Colour?"), asked("Size?")], &vec![vec!["Red".into(), "Blue".into()], vec![]]);
        assert_eq!(output.title, "Asked 2 questions");
        assert_eq!(
            output.text,
            "User has answered your questions: \"Colour?\"=\"Red, Blue\", \"Size?\"=\"Unanswered\". \
             You can now continue with the user's answers in mind."
        );
    }
}
