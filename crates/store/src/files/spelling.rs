//! Suggestions for misspelt names.

/// The known name that the user probably meant. Swapped letters count as one mistake.
pub fn closest<'k>(name: &str, known: &'k [String]) -> Option<&'k str> {
    let letters = |name: &str| {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        letters
    };
    let slips = |known: &str| if letters(name) == letters(known) { 1 } else { distance(name, known) };
    let candidates =
        known.iter().map(|known| (slips(known), known.len().abs_diff(name.len()), known.as_str()));
    let (slips, _, known) = candidates.min_by_key(|(slips, longer, _)| (*slips, *longer))?;
    (slips <= 2 && slips * 2 < name.chars().count()).then_some(known)
}

/// The edit distance: the number of letters to insert, delete or change.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (taken, letter) in from.chars().enumerate() {
        let mut diagonal = taken;
        let mut left = taken + 1;
        for (above, other) in row.iter_mut().skip(1).zip(to.chars()) {
            let changed = diagonal + usize::from(letter != other);
            diagonal = *above;
            left = changed.min(left + 1).min(*above + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = taken + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        let cases =
            [("", "", 0), ("a", "", 1), ("modle", "model", 2), ("auto", "autp", 1), ("kitten", "sitting", 3)];
        for (from, to, expected) in cases {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn the_closest_name_is_close() {
        let known = ["mode", "model", "share", "mcp"].map(str::to_owned);
        for (name, expected) in [
            ("modle", Some("model")),
            ("shares", Some("share")),
            ("mpc", Some("mcp")),
            ("xyz", None),
            ("m", None),
        ] {
            assert_eq!(closest(name, &known), expected, "{name}");
        }
    }
}
