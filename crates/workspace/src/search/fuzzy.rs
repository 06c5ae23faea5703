//! Scores how well a path matches a typed query.
//!
//! All letters must occur in order, with anything between them. Adjacent letters, beginnings of words and
//! letters in the file's name score higher; among equals the shorter path wins.

/// Longest part of a path that is compared, from its end.
const MAX_PATH: usize = 512;
/// Longest part of a query that is compared.
pub(super) const MAX_QUERY: usize = 128;

/// Score of each letter found.
const FOUND: i64 = 16;
/// Bonus for a letter right after the previous one.
const TOGETHER: i64 = 24;
/// Bonus for a letter that begins a word.
const BEGINS: i64 = 20;
/// Bonus per letter if all of them are in the file's name. Less than for the beginning of a word: a short query
/// means a directory that begins with it rather than a name that contains its letters scattered.
const IN_NAME: i64 = 10;

/// Significant letters of a query.
pub(super) fn letters(query: &str) -> Vec<char> {
    query
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .flat_map(char::to_lowercase)
        .take(MAX_QUERY)
        .collect()
}

/// Score of a path, higher is better; `None` if it does not match.
pub(super) fn score(query: &[char], path: &str) -> Option<i64> {
    let all: Vec<char> = path.chars().collect();
    let path = all.get(all.len().saturating_sub(MAX_PATH)..).unwrap_or_default();
    let length = i64::try_from(path.len()).unwrap_or_default();
    let Some(first) = query.first() else { return Some(-length) };
    // The name excludes the trailing slash of a directory.
    let body = path.strip_suffix(&['/']).unwrap_or(path);
    let name = body.iter().rposition(|letter| *letter == '/').map_or(0, |slash| slash + 1);
    let starts = path.iter().enumerate().filter(|(_, letter)| same(**letter, *first)).map(|(at, _)| at);
    let in_name = IN_NAME.saturating_mul(i64::try_from(query.len()).unwrap_or_default());
    let best = starts.filter_map(|start| {
        let score = from(query, path, start)?;
        Some(score + if start >= name { in_name } else { 0 })
    });
    best.max().map(|score| score - length)
}

/// Score when each letter is matched at its next occurrence, the first one at `start`.
fn from(query: &[char], path: &[char], start: usize) -> Option<i64> {
    let (mut score, mut next, mut last) = (0, start, None);
    for letter in query {
        let at = next + path.get(next..)?.iter().position(|other| same(*other, *letter))?;
        score += FOUND;
        if last.is_some_and(|last| last + 1 == at) {
            score += TOGETHER;
        }
        if begins(path, at) {
            score += BEGINS;
        }
        (last, next) = (Some(at), at + 1);
    }
    Some(score)
}

fn same(letter: char, lowercase: char) -> bool {
    letter == lowercase || letter.to_lowercase().eq([lowercase])
}

/// Returns true at the beginning of a word: after a non-letter, or at a capital after a small letter.
fn begins(path: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|at| path.get(at)) else { return true };
    let here = path.get(at).copied().unwrap_or_default();
    !before.is_alphanumeric() || (before.is_lowercase() && here.is_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(query: &str, paths: &[&str]) -> Vec<String> {
        let query = letters(query);
        let mut found: Vec<_> =
            paths.iter().filter_map(|path| Some((score(&query, path)?, (*path).to_owned()))).collect();
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        found.into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn letters_must_occur_in_order() {
        assert_eq!(ranked("abc", &["cba", "ab", "a/b/c", "xaxbxcx"]), ["a/b/c", "xaxbxcx"]);
        assert_eq!(ranked("main rs", &["src/main.rs"]), ["src/main.rs"]);
        assert_eq!(ranked("MAIN", &["src/Main.java"]), ["src/Main.java"]);
    }

    #[test]
    fn names_words_and_neighbours_come_first() {
        let paths = ["docs/route-map/other.md", "src/routes.rs", "r/o/u/t/e/s.rs", "src/routes/mod.rs"];
        assert_eq!(ranked("routes", &paths)[..2], ["src/routes.rs", "src/routes/mod.rs"]);
        assert_eq!(ranked("sr", &["src/lib.rs", "misery"])[0], "src/lib.rs");
        assert_eq!(ranked("gn", &["src/gentle.rs", "src/getName.rs"])[0], "src/getName.rs");
        assert_eq!(ranked("src/", &["src/", "src/lib/"])[0], "src/");
    }

    #[test]
    fn an_empty_query_matches_everything_shortest_first() {
        assert_eq!(ranked(" ", &["bbbb", "a"]), ["a", "bbbb"]);
    }

    #[test]
    fn a_long_path_is_compared_from_its_end() {
        let path = format!("{}/name", "x".repeat(100_000));
        assert!(score(&letters("name"), &path).is_some());
    }
}
