//! Prunes old tool output that a model no longer needs. Pure.

use std::borrow::Borrow;

use protocol::{Message, MessageWithParts, Millis, Part, PartBody, ToolState};

use crate::limits;
use crate::size::tokens;

/// The newest turns, whose output is kept.
const NEWEST_TURNS: usize = 2;

/// The tool whose output is never pruned: the agent loaded it to remember it.
const KEPT: &str = "skill";

/// Returns the parts whose output is removed from the model's view, marked as pruned. Empty if pruning frees too
/// little.
pub(crate) fn prune(messages: &[impl Borrow<MessageWithParts>], now: Millis) -> Vec<Part> {
    let (mut turns, mut seen, mut gain) = (0, 0, 0);
    let mut dropped = Vec::new();
    'back: for message in messages.iter().rev().map(Borrow::borrow) {
        match &message.info {
            Message::User(_) => turns += 1,
            Message::Assistant(answer) if answer.summary == Some(true) => break,
            Message::Assistant(_) => {}
        }
        if turns < NEWEST_TURNS {
            continue;
        }
        for part in message.parts.iter().rev() {
            let PartBody::Tool(tool) = &part.body else { continue };
            let ToolState::Completed(state) = &tool.state else { continue };
            if tool.tool == KEPT {
                continue;
            }
            if state.time.compacted.is_some() {
                break 'back;
            }
            let size = tokens(&state.output);
            seen += size;
            if seen > limits::PRUNE_PROTECTED {
                gain += size;
                dropped.push(marked(part, now));
            }
        }
    }
    if gain > limits::PRUNE_MIN { dropped } else { Vec::new() }
}

fn marked(part: &Part, now: Millis) -> Part {
    let mut part = part.clone();
    if let PartBody::Tool(tool) = &mut part.body
        && let ToolState::Completed(state) = &mut tool.state
    {
        state.time.compacted = Some(now);
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::messages::{answer, prompt, summary, tool};

    /// Returns output of `thousands` × 1000 tokens.
    fn output(thousands: usize) -> String {
        "x".repeat(4_000 * thousands)
    }

    fn dropped(messages: &[MessageWithParts]) -> Vec<String> {
        prune(messages, 9).iter().map(|part| part.message_id.to_string()).collect()
    }

    fn turn(id: &str, outputs: &[(&str, usize)]) -> Vec<MessageWithParts> {
        let mut step = answer(&format!("a{id}"), &format!("p{id}"));
        for (at, (name, size)) in outputs.iter().enumerate() {
            step.parts.push(tool(&format!("a{id}"), &format!("{id}{at}"), name, &output(*size)));
        }
        vec![prompt(&format!("p{id}")), step]
    }

    #[test]
    fn old_output_beyond_the_protected_tail_is_dropped() {
        let messages = [
            turn("1", &[("read", 30)]),
            turn("2", &[("read", 30)]),
            turn("3", &[("read", 90)]),
            turn("4", &[]),
        ];
        let messages = messages.concat();
        // Turn 2 is protected, turns 3 and 4 are the newest.
        assert_eq!(dropped(&messages), ["msg_a1"]);
        let ToolState::Completed(state) = (match &prune(&messages, 9)[0].body {
            PartBody::Tool(tool) => tool.state.clone(),
            other => panic!("{other:?}"),
        }) else {
            panic!("it was completed")
        };
        assert_eq!(state.time.compacted, Some(9));
        assert_eq!(state.output.len(), 120_000, "users still see it");
    }

    #[test]
    fn nothing_is_dropped_unless_it_is_worth_it() {
        let turns = |oldest| {
            [turn("1", &[("read", oldest)]), turn("2", &[("read", 40)]), turn("3", &[]), turn("4", &[])]
        };
        assert_eq!(dropped(&turns(20).concat()), Vec::<String>::new());
        assert_eq!(dropped(&turns(21).concat()), ["msg_a1"]);
    }

    #[test]
    fn pruning_skips_skills_and_stops_at_summaries_and_pruned_output() {
        let rest = || [turn("2", &[("read", 40)]), turn("3", &[]), turn("4", &[])].concat();
        let with = |oldest: Vec<MessageWithParts>| dropped(&[oldest, rest()].concat());
        assert_eq!(with(turn("1", &[("skill", 50)])), Vec::<String>::new());
        let mut before = turn("1", &[("read", 50)]);
        before.push(summary("s", "c", true));
        assert_eq!(with(before), Vec::<String>::new());
        let mut before = turn("1", &[("read", 50), ("read", 1)]);
        before[1].parts[1] = marked(&before[1].parts[1].clone(), 1);
        assert_eq!(with(before), Vec::<String>::new());
    }
}
