//! Determines the scenario of a request and its step in it.

use crate::{Message, Request, UserContent};

/// The name of a scenario with the numbers from its model id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) tuning: Tuning,
}

/// Numbers that override those in a scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tuning {
    pub(super) repeat: Option<u32>,
    pub(super) delay_ms: Option<u64>,
}

const DIRECTIVE: &str = "[[scenario:";

impl Choice {
    pub(super) fn of(request: &Request) -> Self {
        let prompt = prompt(request);
        let named = prompt.split_once(DIRECTIVE).and_then(|(_, rest)| rest.split_once("]]"));
        Self::parse(named.map_or(request.model.model.as_str(), |(name, _)| name.trim()))
    }

    /// Parses `name`, `name:repeat`, `name@delay` or `name:repeat@delay`. A suffix that is not a number stays
    /// part of the name, so it is reported as an unknown model instead of being ignored.
    pub(super) fn parse(text: &str) -> Self {
        let mut tuning = Tuning::default();
        let mut name = text;
        if let Some((rest, number)) = name.rsplit_once('@')
            && let Ok(delay_ms) = number.parse()
        {
            tuning.delay_ms = Some(delay_ms);
            name = rest;
        }
        if let Some((rest, number)) = name.rsplit_once(':')
            && let Ok(repeat) = number.parse()
        {
            tuning.repeat = Some(repeat);
            name = rest;
        }
        Self { name: name.to_owned(), tuning }
    }
}

/// Text of the newest user message.
pub(super) fn prompt(request: &Request) -> String {
    let Some(Message::User(content)) = request.since_newest_prompt().first() else { return String::new() };
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|block| match block {
            UserContent::Text(text) => Some(text.as_str()),
            UserContent::File { .. } => None,
        })
        .collect();
    texts.join("\n")
}

/// Number of steps since the newest prompt.
pub(super) fn step_number(request: &Request) -> usize {
    request.since_newest_prompt().iter().filter(|message| matches!(message, Message::Assistant(_))).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelRef;

    fn asked(model: &str, prompt: &str) -> Choice {
        let mut request = Request::new(ModelRef::new("demo", model));
        request.messages = vec![Message::User(vec![UserContent::Text(prompt.to_owned())])];
        Choice::of(&request)
    }

    #[test]
    fn the_model_id_selects_the_scenario_and_its_numbers() {
        let numbers = |repeat, delay_ms| Tuning { repeat, delay_ms };
        for (model, name, tuning) in [
            ("simple", "simple", numbers(None, None)),
            ("slow@50", "slow", numbers(None, Some(50))),
            ("long_stream:5000", "long_stream", numbers(Some(5000), None)),
            ("long_stream:5000@2", "long_stream", numbers(Some(5000), Some(2))),
            ("odd:name", "odd:name", numbers(None, None)),
        ] {
            assert_eq!(asked(model, "hello"), Choice { name: name.to_owned(), tuning }, "{model}");
        }
    }

    #[test]
    fn a_prompt_can_select_another_scenario() {
        assert_eq!(asked("subagent", "[[scenario:slow@5]] go").name, "slow");
        assert_eq!(asked("subagent", "[[scenario:slow").name, "subagent");
    }
}
