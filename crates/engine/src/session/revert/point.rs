//! The point in a conversation where a revert begins. Pure.

use protocol::{
    Extra, Message, MessageId, MessageWithParts, Part, PartBody, PartId, part::PatchPart, session::Revert,
};

use crate::{Error, ports::Origins};

/// The parts of a message that a revert depends on.
#[derive(Debug, Clone)]
pub(super) struct MessageOutline {
    id: MessageId,
    is_prompt: bool,
    parts: Vec<Piece>,
}

#[derive(Debug, Clone)]
struct Piece {
    id: PartId,
    /// True for text and tool calls, which make a partial answer worth keeping.
    counts: bool,
    patch: Option<PatchPart>,
}

impl MessageOutline {
    pub(super) fn of(message: &MessageWithParts) -> Self {
        let piece = |part: &Part| Piece {
            id: part.id.clone(),
            counts: matches!(part.body, PartBody::Text(_) | PartBody::Tool(_)),
            patch: if let PartBody::Patch(patch) = &part.body { Some(patch.clone()) } else { None },
        };
        Self {
            id: message.info.id().clone(),
            is_prompt: matches!(message.info, Message::User(_)),
            parts: message.parts.iter().map(piece).collect(),
        }
    }
}

/// The first message, and perhaps the first part of it, that a revert hides.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Indices of the message and of the part.
    place: (usize, usize),
    /// The mark that the session stores.
    pub(super) mark: Revert,
}

impl Point {
    /// The point for a revert to a message or part. An answer is reverted together with its prompt, unless a part
    /// before the given one is worth keeping.
    pub(super) fn find(
        glimpses: &[MessageOutline],
        message: &MessageId,
        part: Option<&PartId>,
    ) -> Result<Self, Error> {
        let missing = || Error::NotFound { kind: "Message", id: message.to_string() };
        let place = glimpses.iter().position(|glimpse| glimpse.id == *message).ok_or_else(missing)?;
        let parts = glimpses.get(place).map_or(&[][..], |glimpse| &glimpse.parts);
        if let Some(id) = part {
            let first = parts.iter().position(|piece| piece.id == *id);
            let first = first.ok_or_else(|| Error::NotFound { kind: "Part", id: id.to_string() })?;
            if parts.iter().take(first).any(|piece| piece.counts) {
                return Self::at(glimpses, place, Some(first)).ok_or_else(missing);
            }
        }
        let prompt = glimpses.iter().take(place + 1).rposition(|glimpse| glimpse.is_prompt);
        Self::at(glimpses, prompt.unwrap_or(place), None).ok_or_else(missing)
    }

    /// The point of a stored mark; `None` if the marked message was removed.
    pub(super) fn marked(glimpses: &[MessageOutline], mark: &Revert) -> Option<Self> {
        let message = glimpses.iter().position(|glimpse| glimpse.id == mark.message_id)?;
        let parts = &glimpses.get(message)?.parts;
        let part = mark.part_id.as_ref().and_then(|id| parts.iter().position(|piece| piece.id == *id));
        Self::at(glimpses, message, part)
    }

    fn at(glimpses: &[MessageOutline], message: usize, part: Option<usize>) -> Option<Self> {
        let glimpse = glimpses.get(message)?;
        let piece = part.and_then(|part| glimpse.parts.get(part));
        let mark = Revert {
            message_id: glimpse.id.clone(),
            part_id: piece.map(|piece| piece.id.clone()),
            snapshot: None,
            diff: None,
            extra: Extra::new(),
        };
        Some(Self { place: (message, part.unwrap_or(0)), mark })
    }

    /// Files that were changed from here on, with their state before that.
    pub(super) fn origins_after(&self, glimpses: &[MessageOutline]) -> Origins {
        origins(glimpses, |place| place >= self.place)
    }

    /// Files that were changed before this point, with their original state.
    pub(super) fn origins_before(&self, glimpses: &[MessageOutline]) -> Origins {
        origins(glimpses, |place| place < self.place)
    }
}

/// All changed files, with their original state.
pub(super) fn all_origins(glimpses: &[MessageOutline]) -> Origins {
    origins(glimpses, |_| true)
}

fn origins(glimpses: &[MessageOutline], counts: impl Fn((usize, usize)) -> bool) -> Origins {
    let mut origins = Origins::default();
    for (message, glimpse) in glimpses.iter().enumerate() {
        for (part, piece) in glimpse.parts.iter().enumerate() {
            if let Some(patch) = piece.patch.as_ref().filter(|_| counts((message, part))) {
                origins.note(patch);
            }
        }
    }
    origins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glimpse(id: &str, is_prompt: bool, parts: &[(&str, bool, &[&str])]) -> MessageOutline {
        let piece = |(id, counts, files): &(&str, bool, &[&str])| Piece {
            id: format!("prt_{id}").parse().unwrap(),
            counts: *counts,
            patch: (!files.is_empty()).then(|| PatchPart {
                hash: format!("tree {id}"),
                files: files.iter().map(ToString::to_string).collect(),
                extra: Extra::new(),
            }),
        };
        MessageOutline {
            id: format!("msg_{id}").parse().unwrap(),
            is_prompt,
            parts: parts.iter().map(piece).collect(),
        }
    }

    /// Two prompts with two answers each; both change `a`, only the first changes `b` and only the second `c`.
    fn conversation() -> Vec<MessageOutline> {
        vec![
            glimpse("1", true, &[("10", true, &[])]),
            glimpse("2", false, &[("20", false, &[]), ("21", true, &[]), ("22", false, &["a", "b"])]),
            glimpse("3", true, &[("30", true, &[])]),
            glimpse(
                "4",
                false,
                &[("40", false, &[]), ("41", true, &[]), ("42", true, &[]), ("43", false, &["a"])],
            ),
            glimpse("5", false, &[("50", true, &[]), ("51", false, &["c"])]),
        ]
    }

    fn find(message: &str, part: Option<&str>) -> Result<(String, Option<String>), String> {
        let all = conversation();
        let part = part.map(|part| format!("prt_{part}").parse().unwrap());
        let point = Point::find(&all, &format!("msg_{message}").parse().unwrap(), part.as_ref());
        let point = point.map_err(|error| error.to_string())?;
        assert_eq!(Point::marked(&all, &point.mark).as_ref(), Some(&point), "a mark is found again");
        let mark = point.mark;
        Ok((mark.message_id.to_string(), mark.part_id.map(|part| part.to_string())))
    }

    #[test]
    fn an_answer_is_reverted_with_its_prompt_unless_a_part_of_it_stays() {
        let whole = |message: &str| Ok((format!("msg_{message}"), None));
        assert_eq!(find("3", None), whole("3"));
        assert_eq!(find("5", None), whole("3"));
        assert_eq!(find("4", Some("41")), whole("3"), "nothing that counts is before it");
        assert_eq!(find("4", Some("42")), Ok(("msg_4".into(), Some("prt_42".into()))));
        assert_eq!(find("9", None), Err("Message not found: msg_9".into()));
        assert_eq!(find("4", Some("50")), Err("Part not found: prt_50".into()));
    }

    #[test]
    fn a_file_is_restored_to_its_state_before_the_first_change() {
        let all = conversation();
        let tree = |of: &Origins, file: &str| {
            of.by_tree().iter().find(|(_, files)| files.contains(file)).map(|(tree, _)| (*tree).to_owned())
        };
        let point = Point::find(&all, &"msg_3".parse().unwrap(), None).unwrap();
        let (after, before) = (point.origins_after(&all), point.origins_before(&all));
        let trees = |of: &Origins| ["a", "b", "c"].map(|file| tree(of, file));
        assert_eq!(trees(&after), [Some("tree 43".into()), None, Some("tree 51".into())]);
        assert_eq!(trees(&before), [Some("tree 22".into()), Some("tree 22".into()), None]);
        assert_eq!(trees(&all_origins(&all)), ["22", "22", "51"].map(|id| Some(format!("tree {id}"))));
        let part = Point::find(&all, &"msg_5".parse().unwrap(), Some(&"prt_51".parse().unwrap())).unwrap();
        assert_eq!(trees(&part.origins_after(&all)), [None, None, Some("tree 51".into())]);
    }
}
