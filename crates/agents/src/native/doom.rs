//! Noticing a model that makes the same call again and again.
//!
//! Counts over the whole turn and not within one message, because a model that is stuck usually makes one call
//! per step.

use protocol::Extra;

/// The newest call and how often in a row it was made.
#[derive(Debug, Default)]
pub(super) struct Doom {
    last: Option<(String, Extra)>,
    times: u32,
}

impl Doom {
    /// Notes a call; answers how often it has been made in a row, this time included.
    pub(super) fn note(&mut self, tool: &str, input: &Extra) -> u32 {
        if self.last.as_ref().is_some_and(|(name, before)| name == tool && before == input) {
            self.times += 1;
        } else {
            self.last = Some((tool.to_owned(), input.clone()));
            self.times = 1;
        }
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Extra {
        Extra::from_iter([("filePath".to_owned(), text.into())])
    }

    #[test]
    fn equal_calls_in_a_row_are_counted() {
        let mut doom = Doom::default();
        assert_eq!([doom.note("read", &input("a")), doom.note("read", &input("a"))], [1, 2]);
        assert_eq!(doom.note("read", &input("b")), 1);
        assert_eq!(doom.note("list", &input("b")), 1);
        assert_eq!([doom.note("list", &input("b")), doom.note("list", &input("b"))], [2, 3]);
    }
}
