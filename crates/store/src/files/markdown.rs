//! Markdown files with YAML front matter: agents, commands and skills.

use std::{fmt, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{Location, Spanned};

use super::{
    document::{Entry, Kind, Node, whole},
    problem::{Position, Problem, Source},
    walk,
};

/// Maximum size of a file.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// Maximum number of values in the front matter, including those that an alias repeats.
const MAX_VALUES: usize = 20_000;

/// The line that begins and ends the front matter.
const FENCE: &str = "---";

#[derive(Debug)]
pub(super) struct Page {
    /// The front matter: always a map, empty if there is none.
    pub(super) data: Node,
    /// The text after the front matter, trimmed.
    pub(super) body: String,
}

pub(super) fn read(path: &Path) -> Result<Page, Problem> {
    let source = Source::File(path.to_owned());
    let text = walk::read(path, MAX_BYTES).and_then(|text| text.ok_or(std::io::ErrorKind::NotFound.into()));
    let text = text.map_err(|error| {
        Problem::about(&source, None, format!("the file cannot be read: {}", walk::reason(&error)))
    })?;
    parse(&text, &source)
}

pub(super) fn parse(text: &str, source: &Source) -> Result<Page, Problem> {
    let Some((matter, body)) = split(text, source)? else {
        return Ok(Page { data: empty(), body: text.trim().to_owned() });
    };
    let data = yaml(matter).or_else(|error| {
        // Files written for other agents often have an unquoted colon in a description, which is meant as text.
        yaml(&quoted(matter)).map_err(|_| problem(&error, source))
    })?;
    let data = match data.kind {
        Kind::Null => empty(),
        Kind::Map(_) => data,
        _ => return Err(Problem::about(source, Some(data.at), "the front matter must be a map")),
    };
    Ok(Page { data, body: body.trim().to_owned() })
}

fn empty() -> Node {
    Node { at: Position { line: 1, column: 1 }, kind: Kind::Map(Vec::new()) }
}

/// The front matter and the rest, if the text begins with a fence.
fn split<'t>(text: &'t str, source: &Source) -> Result<Option<(&'t str, &'t str)>, Problem> {
    let is_fence = |line: &str| line.trim_end() == FENCE;
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else { return Ok(None) };
    let start = first.len();
    let mut end = start;
    for line in lines {
        if is_fence(line) {
            let matter = text.get(start..end).unwrap_or_default();
            let body = text.get(end + line.len()..).unwrap_or_default();
            return Ok(Some((matter, body)));
        }
        end += line.len();
    }
    let at = Position { line: 1, column: 1 };
    Err(Problem::about(
        source,
        Some(at),
        format!("the front matter that begins here has no closing `{FENCE}`"),
    ))
}

fn yaml(matter: &str) -> Result<Node, serde_saphyr::Error> {
    if matter.trim().is_empty() {
        return Ok(empty());
    }
    let mut options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_events: MAX_VALUES, max_recorded_anchor_events: MAX_VALUES },
    };
    options.alias_limits.max_total_replayed_events = MAX_VALUES;
    serde_saphyr::from_str_with_options(matter, options)
}

fn problem(error: &serde_saphyr::Error, source: &Source) -> Problem {
    let message = error.without_snippet().to_string();
    // The problem has its own position; the message's first line is the error.
    let message = message.lines().next().unwrap_or_default();
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let at = error.location().map(|location| position(&location));
    Problem::about(source, at, format!("the front matter is not YAML: {message}"))
}

/// Converts a position in the front matter to one in the file, which begins with the fence.
fn position(location: &Location) -> Position {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Position { line: number(location.line()).saturating_add(1), column: number(location.column()) }
}

/// Puts quotes around plain values with a colon. Line numbers stay the same.
fn quoted(matter: &str) -> String {
    let line = |line: &str| {
        let plain = |value: &str| {
            value.contains(':') && !value.starts_with(['"', '\'', '|', '>', '{', '[', '&', '*'])
        };
        match line.split_once(": ") {
            Some((key, value)) if !key.starts_with([' ', '\t', '#', '-']) && plain(value.trim()) => {
                format!("{key}: '{}'\n", value.trim().replace('\'', "''"))
            }
            _ => format!("{line}\n"),
        }
    };
    matter.lines().map(line).collect()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<Kind>::deserialize(deserializer)?;
        Ok(Self { at: position(&referenced), kind: value })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyKind)
    }
}

struct AnyKind;

impl<'de> Visitor<'de> for AnyKind {
    type Value = Kind;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }
    fn visit_none<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        Kind::deserialize(deserializer)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        Ok(Kind::Switch(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        Ok(Kind::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        Ok(Kind::Number(value.into()))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Kind, E> {
        let number =
            serde_json::Number::from_f64(value).ok_or_else(|| E::custom("a number must be finite"))?;
        Ok(Kind::Number(whole(number)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Kind, E> {
        Ok(Kind::Text(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Kind, E> {
        Ok(Kind::Text(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Kind::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Kind, A::Error> {
        let mut map = Vec::new();
        while let Some((name, value)) = entries.next_entry::<Spanned<String>, Node>()? {
            map.push(Entry { at: position(&name.referenced), name: name.value, value });
        }
        Ok(Kind::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(text: &str) -> Result<Page, String> {
        parse(text, &Source::File("a.md".into())).map_err(|problem| problem.to_string())
    }

    #[test]
    fn front_matter_and_body_are_separated() {
        let text = "---\r\nmodel: a/b\nsteps: 5\ntop_p: 0.5\nratio: 1.0\non: true\nno: no\nnone:\ntools:\n  bash: false\nlist: [a, 1]\n\
                    text: |\n  two\n  lines\n---\n\nSay **hello**.\n---\nAnd more.\n";
        let page = page(text).unwrap();
        assert_eq!(page.body, "Say **hello**.\n---\nAnd more.");
        assert_eq!(
            page.data.into_value(),
            json!({
                "model": "a/b", "steps": 5, "top_p": 0.5, "ratio": 1, "on": true, "no": "no", "none": null,
                "tools": { "bash": false }, "list": ["a", 1], "text": "two\nlines\n",
            })
        );
    }

    #[test]
    fn a_file_may_have_no_front_matter_or_an_empty_one() {
        for (text, body) in
            [("Hello", "Hello"), ("---\n---\nHello", "Hello"), ("---\n# a word\n---\n", ""), ("", "")]
        {
            let page = page(text).unwrap();
            assert_eq!((page.data.into_value(), page.body.as_str()), (json!({}), body), "{text}");
        }
    }

    #[test]
    fn positions_are_those_of_the_file() {
        let page = page("---\nmodel: a\ntools:\n  bash: maybe\n---\n").unwrap();
        let tools = page.data.entry("tools").unwrap();
        let bash = tools.value.entry("bash").unwrap();
        assert_eq!((tools.at.line, bash.at.line, bash.at.column), (3, 4, 3));
        assert_eq!((bash.value.at.line, bash.value.at.column), (4, 9));
    }

    #[test]
    fn a_colon_in_a_description_is_forgiven() {
        let page = page("---\ndescription: Use when: it's late\nmodel: a\n---\n").unwrap();
        assert_eq!(page.data.into_value(), json!({ "description": "Use when: it's late", "model": "a" }));
    }

    #[test]
    fn errors_are_reported_with_their_line() {
        let cases = [
            ("---\nmodel: [a\n---\n", "a.md:"),
            ("---\nmodel: a\nmodel: b\n---\n", "a.md:3:1: the front matter is not YAML:"),
            ("---\n- a\n---\n", "a.md:2:1: the front matter must be a map"),
            ("---\nmodel: a\n", "a.md:1:1: the front matter that begins here has no closing `---`"),
        ];
        for (text, expected) in cases {
            let told = page(text).unwrap_err();
            assert!(told.starts_with(expected) && !told.contains('\n'), "{told}");
        }
    }

    #[test]
    fn a_bomb_does_not_go_off() {
        let level =
            |level: u32| format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(9));
        let levels: String = (1..12).map(level).collect();
        let text = format!("---\na0: &a0 [x, x, x, x, x, x, x, x, x]\n{levels}---\n");
        assert!(page(&text).is_err());
        let deep = format!("---\na: {}{}\n---\n", "[".repeat(10_000), "]".repeat(10_000));
        assert!(page(&deep).is_err());
    }
}
