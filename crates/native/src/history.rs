//! Selects the messages of a session for a model request, and orders them. Pure.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use protocol::part::CompactionPart;
use protocol::{AssistantMessage, Message, MessageId, MessageWithParts, PartBody};

use super::size::{self, Size};

/// A message that the engine may keep for further steps.
type Shared = Arc<MessageWithParts>;

/// A conversation: a summary of its beginning, and the remaining messages.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) summary: Option<Summary>,
    /// Without summaries and the requests for them.
    pub(super) messages: Vec<Shared>,
    /// The number of messages that are older than the summary.
    tail: usize,
    /// True if older messages are missing because there were too many to read.
    pub(super) cut: bool,
}

/// A summary, and the request that it answers.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) request: Shared,
    pub(super) summary: Shared,
}

impl History {
    /// Builds the conversation from a session's messages, oldest first. `turn` holds the prompts of the current
    /// turn, and `new_prompts` those among them that no step has answered yet.
    pub(super) fn new(messages: Vec<Shared>, new_prompts: &[MessageId], turn: &[MessageId]) -> Self {
        cut(in_order(messages, new_prompts, turn))
    }

    /// Returns the newest assistant message.
    pub(super) fn last_answer(&self) -> Option<&AssistantMessage> {
        self.messages.iter().rev().find_map(|message| assistant(&message.info))
    }

    /// Returns the newest finished step since the summary. The token counts of older steps include what the summary
    /// replaced.
    pub(super) fn last_finished(&self) -> Option<&AssistantMessage> {
        let newer = self.messages.get(self.tail..).unwrap_or_default();
        let mut answers = newer.iter().rev().filter_map(|message| assistant(&message.info));
        answers.find(|message| message.finish.is_some())
    }

    /// Returns the token count of the newest finished step, and the messages from that step on: the count does not
    /// include the results of the step's tools.
    pub(super) fn measured(&self) -> Option<(u64, &[Shared])> {
        let last = self.last_finished()?;
        let counted = last.tokens.total.unwrap_or_else(|| {
            last.tokens.input + last.tokens.output + last.tokens.cache.read + last.tokens.cache.write
        });
        let from = self.position(&last.id)?;
        (counted > 0).then_some((counted, self.messages.get(from..).unwrap_or_default()))
    }

    /// Returns the index of a message.
    pub(super) fn position(&self, id: &MessageId) -> Option<usize> {
        self.messages.iter().position(|message| message.info.id() == id)
    }
}

/// Decides how far back a session's messages are needed, newest first: to the tail of the newest summary, or until
/// more was read than the model's context can hold.
#[derive(Debug)]
pub(super) struct LookBack {
    /// The remaining limit.
    left: Size,
    cut: bool,
    /// The request that the newest summary answers.
    request: Option<MessageId>,
    /// The first message of the summary's tail.
    tail: Option<MessageId>,
}

impl LookBack {
    /// Starts with the limit `most`.
    pub(super) fn within(most: Size) -> Self {
        Self { left: most, cut: false, request: None, tail: None }
    }

    /// Returns true if reading stopped because of the limit.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the request that the newest summary answers, if the summary was read.
    pub(super) fn request(&self) -> Option<&MessageId> {
        self.request.as_ref()
    }

    /// Returns true if no message before this one is needed.
    pub(super) fn is_enough(&mut self, message: &MessageWithParts) -> bool {
        if self.reaches(message) {
            return true;
        }
        let size = size::stored(message);
        self.left.tokens = self.left.tokens.saturating_sub(size.tokens);
        self.left.bytes = self.left.bytes.saturating_sub(size.bytes);
        self.cut = self.left.tokens == 0 || self.left.bytes == 0;
        self.cut
    }

    /// Returns true if the tail of the newest summary begins with this message.
    fn reaches(&mut self, message: &MessageWithParts) -> bool {
        let id = message.info.id();
        if let Some(tail) = &self.tail {
            return id == tail;
        }
        if let Some(answer) = assistant(&message.info) {
            if self.request.is_none() && answer.is_summary() {
                self.request = Some(answer.parent_id.clone());
            }
            return false;
        }
        if self.request.as_ref() != Some(id) {
            return false;
        }
        self.tail = compaction(message).and_then(|request| request.tail_start_id.clone());
        self.tail.is_none()
    }
}

/// Returns the prompts that are older than these messages but were answered among them, because they waited.
pub(super) fn missing(messages: &[Shared], new_prompts: &[MessageId]) -> Vec<MessageId> {
    let request = newest_summary(messages).map_or(0, |(_, request)| request);
    let newer = messages.get(request..).unwrap_or_default();
    let answered = newer.iter().filter_map(|message| Some(&assistant(&message.info)?.parent_id));
    let known: HashSet<&MessageId> = messages.iter().map(|message| message.info.id()).collect();
    let mut missing: Vec<MessageId> = answered
        .chain(not_continued(messages, new_prompts))
        .filter(|id| !known.contains(id))
        .cloned()
        .collect();
    missing.sort();
    missing.dedup();
    missing
}

/// Returns the new prompts without those that another message already continues. A summary came before the first
/// answer to such a prompt, and the prompt is in its tail, in its text, or was added again.
fn not_continued<'a>(
    messages: &[Shared],
    new_prompts: &'a [MessageId],
) -> impl Iterator<Item = &'a MessageId> {
    let continued: Vec<MessageId> = messages
        .iter()
        .filter_map(|message| match &message.info {
            Message::User(user) => user.continues(),
            Message::Assistant(_) => None,
        })
        .collect();
    new_prompts.iter().filter(move |id| !continued.contains(id))
}

/// Sorts messages into the order in which the model saw them. A prompt that waited while another was answered comes
/// right before its own answer, however early it was written. An unanswered prompt comes with the next answered
/// one.
///
/// A prompt of an earlier turn that was interrupted before its answer comes before the prompts of this turn, even
/// if it was written later than they were. Otherwise it would stand behind every answer of this turn, and the
/// model, which sees it last and unanswered each time, would repeat its first step.
fn in_order(messages: Vec<Shared>, new_prompts: &[MessageId], turn: &[MessageId]) -> Vec<Shared> {
    let parents = messages.iter().filter_map(|message| Some(&assistant(&message.info)?.parent_id));
    let answered: HashSet<MessageId> =
        parents.chain(not_continued(&messages, new_prompts)).cloned().collect();
    let mut ordered = Vec::with_capacity(messages.len());
    let mut waiting: VecDeque<Shared> = VecDeque::new();
    for message in messages {
        let Some(answer) = assistant(&message.info) else {
            waiting.push_back(message);
            continue;
        };
        if turn.contains(&answer.parent_id) {
            let is_left = |prompt: &Shared| !answered.contains(prompt.info.id()) && !belongs(prompt, turn);
            let (left, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_left);
            ordered.extend(left);
            waiting = rest.into();
        }
        if let Some(at) = waiting.iter().position(|prompt| *prompt.info.id() == answer.parent_id) {
            let (later, ready): (Vec<_>, Vec<_>) = waiting.drain(..=at).partition(|prompt| {
                answered.contains(prompt.info.id()) && *prompt.info.id() != answer.parent_id
            });
            ordered.extend(ready);
            for prompt in later.into_iter().rev() {
                waiting.push_front(prompt);
            }
        }
        ordered.push(message);
    }
    let (of_turn, left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|prompt| belongs(prompt, turn));
    ordered.extend(left.into_iter().chain(of_turn));
    ordered
}

/// Returns true if a user message is one of a turn's prompts, or continues one.
fn belongs(message: &MessageWithParts, turn: &[MessageId]) -> bool {
    let Message::User(user) = &message.info else { return false };
    turn.contains(&user.id) || user.continues().is_some_and(|prompt| turn.contains(&prompt))
}

/// Replaces the messages before the newest summary's tail by the summary.
fn cut(messages: Vec<Shared>) -> History {
    let Some((at, request_at)) = newest_summary(&messages) else {
        return History {
            messages: messages.into_iter().filter(|message| is_conversation(message)).collect(),
            ..History::default()
        };
    };
    let tail = messages.get(request_at).and_then(|request| compaction(request)?.tail_start_id.as_ref());
    let kept_from = tail
        .and_then(|tail| messages.iter().position(|message| message.info.id() == tail))
        .filter(|kept| *kept < request_at)
        .unwrap_or(request_at);
    let mut history = History::default();
    let mut request = None;
    for (index, message) in messages.into_iter().enumerate() {
        match (index, request.take()) {
            (index, _) if index == request_at => request = Some(message),
            (index, Some(request)) if index == at => {
                history.summary = Some(Summary { request, summary: message });
            }
            (index, waiting) => {
                request = waiting;
                if index >= kept_from && is_conversation(&message) {
                    history.tail += usize::from(index < request_at);
                    history.messages.push(message);
                }
            }
        }
    }
    history
}

/// Returns the indexes of the newest completed summary and of the request it answers.
fn newest_summary(messages: &[Shared]) -> Option<(usize, usize)> {
    messages.iter().enumerate().rev().find_map(|(at, message)| {
        let answer = assistant(&message.info).filter(|answer| answer.is_summary())?;
        let request = messages
            .get(..at)?
            .iter()
            .rposition(|request| *request.info.id() == answer.parent_id && compaction(request).is_some())?;
        Some((at, request))
    })
}

/// Returns true if a message is neither a summary nor a request for one.
fn is_conversation(message: &MessageWithParts) -> bool {
    match &message.info {
        Message::User(_) => compaction(message).is_none(),
        Message::Assistant(answer) => answer.summary != Some(true),
    }
}

/// Returns the request for a summary in a message.
pub(super) fn compaction(message: &MessageWithParts) -> Option<&CompactionPart> {
    message.parts.iter().find_map(|part| match &part.body {
        PartBody::Compaction(part) => Some(part),
        _ => None,
    })
}

fn assistant(message: &Message) -> Option<&AssistantMessage> {
    match message {
        Message::Assistant(message) => Some(message),
        Message::User(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use protocol::UserMessage;

    use super::*;
    use crate::tests::messages::{answer, compaction_request, prompt, summary};

    fn shared(messages: Vec<MessageWithParts>) -> Vec<Shared> {
        messages.into_iter().map(Arc::new).collect()
    }

    fn ids(messages: &[Shared]) -> Vec<&str> {
        messages.iter().map(|message| message.info.id().as_str()).collect()
    }

    fn ordered(messages: Vec<MessageWithParts>, fresh: &[&str]) -> Vec<String> {
        ordered_in_turn(messages, fresh, fresh)
    }

    fn ordered_in_turn(messages: Vec<MessageWithParts>, fresh: &[&str], turn: &[&str]) -> Vec<String> {
        let [fresh, turn] =
            [fresh, turn].map(|ids| ids.iter().map(|id| id.parse().unwrap()).collect::<Vec<MessageId>>());
        let history = History::new(shared(messages), &fresh, &turn);
        let summary = history.summary.iter().flat_map(|it| [&it.request, &it.summary]);
        summary.chain(&history.messages).map(|message| message.info.id().to_string()).collect()
    }

    #[test]
    fn a_queued_prompt_comes_after_the_answer_it_waited_for() {
        let written =
            vec![prompt("p1"), answer("a1", "p1"), prompt("p2"), answer("a1b", "p1"), answer("a2", "p2")];
        assert_eq!(ordered(written, &["msg_p2"]), ["msg_p1", "msg_a1", "msg_a1b", "msg_p2", "msg_a2"]);
    }

    #[test]
    fn a_prompt_whose_answer_has_not_begun_comes_last() {
        // The third joined the first; the second was queued and is taken up now.
        let written = vec![prompt("p1"), prompt("p2"), prompt("p3"), answer("a3", "p3")];
        assert_eq!(ordered(written, &["msg_p2"]), ["msg_p1", "msg_p3", "msg_a3", "msg_p2"]);
    }

    #[test]
    fn an_interrupted_prompt_does_not_hide_the_answers_to_one_that_was_queued_before_it() {
        // The second and third joined an earlier turn, and a crash ended it; then the first is taken up.
        let mut written = vec![prompt("p1"), prompt("p2"), prompt("p3")];
        assert_eq!(
            ordered_in_turn(written.clone(), &["msg_p1"], &["msg_p1"]),
            ["msg_p2", "msg_p3", "msg_p1"]
        );
        written.push(answer("a1", "p1"));
        assert_eq!(ordered_in_turn(written, &[], &["msg_p1"]), ["msg_p2", "msg_p3", "msg_p1", "msg_a1"]);
    }

    #[test]
    fn prompts_that_joined_together_stay_together() {
        let written = vec![prompt("p1"), answer("a1", "p1"), prompt("p2"), prompt("p3"), answer("a3", "p3")];
        assert_eq!(ordered(written, &[]), ["msg_p1", "msg_a1", "msg_p2", "msg_p3", "msg_a3"]);
    }

    #[test]
    fn a_prompt_that_was_summarised_before_its_answer_precedes_its_continuation() {
        let written = || {
            let mut continued = prompt("k");
            if let Message::User(user) = &mut continued.info {
                user.extra.insert(UserMessage::CONTINUES.to_owned(), "msg_p1".into());
            }
            vec![
                prompt("p0"),
                prompt("p1"),
                compaction_request("c", Some("p1")),
                summary("s", "c", true),
                continued,
            ]
        };
        assert_eq!(ordered(written(), &["msg_p1"]), ["msg_c", "msg_s", "msg_p1", "msg_k"]);
        let again: Vec<_> = written().into_iter().chain([answer("a", "k")]).collect();
        assert_eq!(ordered(again, &["msg_p1"]), ["msg_c", "msg_s", "msg_p1", "msg_k", "msg_a"]);
        let gone = written().split_off(2);
        assert!(missing(&shared(gone), &["msg_p1".parse().unwrap()]).is_empty());
    }

    #[test]
    fn a_prompt_that_was_never_answered_is_sent_with_the_next_one() {
        let written = vec![prompt("p1"), prompt("p2"), answer("a1", "p1"), prompt("p4"), answer("a4", "p4")];
        assert_eq!(ordered(written, &["msg_p4"]), ["msg_p1", "msg_a1", "msg_p2", "msg_p4", "msg_a4"]);
    }

    #[test]
    fn a_summary_replaces_the_messages_before_its_tail() {
        let written = |tail| {
            vec![
                prompt("p1"),
                answer("a1", "p1"),
                prompt("p2"),
                answer("a2", "p2"),
                compaction_request("c", tail),
                summary("s", "c", true),
                prompt("k"),
                answer("ak", "k"),
            ]
        };
        let whole = ["msg_c", "msg_s", "msg_k", "msg_ak"];
        assert_eq!(ordered(written(None), &[]), whole);
        assert_eq!(ordered(written(Some("nobody")), &[]), whole, "a tail that does not exist is ignored");
        assert_eq!(
            ordered(written(Some("a2")), &[]),
            ["msg_c", "msg_s", "msg_a2", "msg_k", "msg_ak"],
            "the tail comes after the summary"
        );
    }

    /// Returns the ids of the messages that are read, oldest first.
    fn read(written: &[MessageWithParts]) -> Vec<&str> {
        let mut back = LookBack::within(Size { tokens: u64::MAX, bytes: u64::MAX });
        let mut found = Vec::new();
        for message in written.iter().rev() {
            found.push(message.info.id().as_str());
            if back.is_enough(message) {
                break;
            }
        }
        found.reverse();
        found
    }

    #[test]
    fn messages_before_the_tail_of_a_summary_are_not_read() {
        let written = |tail, complete| {
            let mut written = vec![prompt("p1"), answer("a1", "p1"), answer("a2", "p1")];
            written.extend([compaction_request("c", tail), summary("s", "c", complete), prompt("k")]);
            written
        };
        assert_eq!(read(&written(None, true)), ["msg_c", "msg_s", "msg_k"]);
        assert_eq!(read(&written(Some("a2"), true)), ["msg_a2", "msg_c", "msg_s", "msg_k"]);
        assert_eq!(read(&written(None, false)).len(), 6);
        assert_eq!(read(&written(Some("gone"), true)).len(), 6);
    }

    #[test]
    fn a_prompt_that_waited_through_a_summary_is_missed() {
        let mut written =
            vec![answer("a1", "p1"), compaction_request("c", Some("a1")), summary("s", "c", true)];
        written.extend([answer("a2", "p2")]);
        let fresh = ["msg_p3".parse().unwrap()];
        let missed = missing(&shared(written), &fresh);
        let missed: Vec<&str> = missed.iter().map(MessageId::as_str).collect();
        assert_eq!(missed, ["msg_p2", "msg_p3"], "but not the prompt of the tail, which is summarised");
    }

    #[test]
    fn an_incomplete_summary_replaces_nothing() {
        let written = vec![
            prompt("p1"),
            answer("a1", "p1"),
            compaction_request("c", None),
            summary("s", "c", false),
            prompt("p2"),
        ];
        assert_eq!(ordered(written, &["msg_p2"]), ["msg_p1", "msg_a1", "msg_p2"]);
    }

    #[test]
    fn a_second_summary_keeps_the_tail_of_the_first_without_its_request() {
        let written = vec![
            prompt("p1"),
            answer("a1", "p1"),
            compaction_request("c", Some("a1")),
            summary("s", "c", true),
            prompt("k"),
            answer("ak", "k"),
            compaction_request("c2", Some("a1")),
            summary("s2", "c2", true),
        ];
        let history = History::new(shared(written), &[], &[]);
        assert_eq!(ids(&history.messages), ["msg_a1", "msg_k", "msg_ak"]);
        assert_eq!(history.last_answer().unwrap().id.as_str(), "msg_ak");
        assert!(history.last_finished().is_none(), "all of them are older than the summary");
        assert_eq!(history.summary.unwrap().summary.info.id().as_str(), "msg_s2");
    }
}
