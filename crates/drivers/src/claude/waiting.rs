//! The prompts that Claude Code has not taken up yet.

use std::collections::VecDeque;

/// The prompts that joined a turn and that Claude Code has not taken up yet.
///
/// Claude Code echoes a prompt when it takes it up, alone or together with results of tools. It reports an idle before it
/// takes up a prompt that arrived at the end of its work, so such an idle does not end the turn. One kind of prompt is
/// never echoed: a command of Claude Code, such as `/cost`. It has a segment of its own, so a segment without an echo
/// took up the oldest prompt.
#[derive(Debug, Default)]
pub(super) struct WaitingPrompts {
    /// The id of the prompt that began the turn, until it is taken up.
    first: Option<String>,
    /// The ids of the prompts that joined the turn, oldest first.
    joined: VecDeque<String>,
    /// The current segment has echoed a prompt.
    has_echoed: bool,
}

impl WaitingPrompts {
    /// Returns the id of the prompt that begins the turn.
    pub(super) fn begin(&mut self) -> String {
        self.first.insert(uuid_of(rand::random())).clone()
    }

    /// Adds a prompt that joins the turn, and returns its id.
    pub(super) fn join(&mut self) -> String {
        let id = uuid_of(rand::random());
        self.joined.push_back(id.clone());
        id
    }

    /// Claude Code takes up the prompt with this id. Returns true if it joined the turn.
    pub(super) fn echoed(&mut self, id: &str) -> bool {
        let is_first = self.first.take_if(|first| first == id).is_some();
        let position = self.joined.iter().position(|joined| joined == id);
        self.has_echoed |= is_first || position.is_some();
        position.and_then(|position| self.joined.remove(position)).is_some()
    }

    /// A segment that answers prompts has ended.
    pub(super) fn segment_ended(&mut self) {
        let has_echoed = std::mem::take(&mut self.has_echoed);
        if !has_echoed && self.first.take().is_none() {
            self.joined.pop_front();
        }
    }

    /// Removes the prompts that joined the turn, and returns their ids.
    pub(super) fn withdraw(&mut self) -> VecDeque<String> {
        std::mem::take(&mut self.joined)
    }

    /// Returns true if no prompt that joined the turn waits.
    pub(super) fn is_empty(&self) -> bool {
        self.joined.is_empty()
    }
}

/// The text of a UUID of version 4, which Claude Code uses for its own messages, too.
fn uuid_of(random: u128) -> String {
    let hex = format!("{:032x}", random & !(0xf << 76) & !(0b11 << 62) | 0x4 << 76 | 0b10 << 62);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_takes_up_its_prompt() {
        let mut waiting = WaitingPrompts::default();
        let ids = [waiting.begin(), waiting.join(), waiting.join()];
        assert!(!waiting.echoed(&ids[0]));
        assert!(waiting.echoed(&ids[2]));
        assert!(!waiting.echoed(&ids[2]));
        waiting.segment_ended();
        assert!(!waiting.is_empty());
        assert!(waiting.echoed(&ids[1]));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_segment_without_an_echo_takes_up_the_oldest_prompt() {
        let mut waiting = WaitingPrompts::default();
        let ids = [waiting.begin(), waiting.join(), waiting.join()];
        assert!(!waiting.echoed("of an earlier turn"));
        waiting.segment_ended();
        waiting.segment_ended();
        assert!(!waiting.is_empty());
        assert!(waiting.echoed(&ids[2]));
        waiting.segment_ended();
        assert!(waiting.is_empty());
    }

    #[test]
    fn withdrawn_prompts_do_not_wait() {
        let mut waiting = WaitingPrompts::default();
        let ids = [waiting.begin(), waiting.join(), waiting.join()];
        assert_eq!(waiting.withdraw(), &ids[1..]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn ids_are_uuids_of_version_4() {
        assert_eq!(uuid_of(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid_of(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
