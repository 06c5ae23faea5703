//! Parses patches. Lenient about surrounding text, strict about the patch itself.

use super::{Error, Hunk, Line, Operation};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Parses a patch. Ignores text before and after it, such as here-document markers.
pub fn parse(text: &str) -> Result<Vec<Operation<String>>, Error> {
    let mut reader = Reader { lines: text.lines().enumerate().peekable() };
    if reader.lines.find(|(_, line)| line.trim() == BEGIN).is_none() {
        return Err(Error::Syntax { line: 1, message: format!("it must begin with `{BEGIN}`") });
    }
    let mut operations = Vec::new();
    while let Some((at, line)) = reader.lines.next() {
        let line = line.trim();
        if line == END {
            return if operations.is_empty() { Err(Error::Empty) } else { Ok(operations) };
        }
        let named = |opening: &str| line.strip_prefix(opening).map(|path| name(path, at));
        if let Some(path) = named(ADD) {
            operations.push(Operation::Add { path: path?, content: reader.content()? });
        } else if let Some(path) = named(DELETE) {
            operations.push(Operation::Delete { path: path? });
        } else if let Some(path) = named(UPDATE) {
            let (path, target) = (path?, reader.target()?);
            let hunks = reader.hunks()?;
            if hunks.is_empty() && target.is_none() {
                return Err(syntax(at, format!("`{UPDATE} {path}` has no change")));
            }
            operations.push(Operation::Update { path, target, hunks });
        } else if !line.is_empty() {
            return Err(syntax(
                at,
                format!("expected `{ADD}`, `{UPDATE}`, `{DELETE}` or `{END}`, not `{line}`"),
            ));
        }
    }
    Err(syntax(text.lines().count().saturating_sub(1), format!("it must end with `{END}`")))
}

struct Reader<'a, I: Iterator<Item = (usize, &'a str)>> {
    lines: std::iter::Peekable<I>,
}

impl<'a, I: Iterator<Item = (usize, &'a str)>> Reader<'a, I> {
    /// The next line, unless it begins another section.
    fn within(&mut self) -> Option<(usize, &'a str)> {
        self.lines.next_if(|(_, line)| !line.starts_with("*** "))
    }

    fn content(&mut self) -> Result<String, Error> {
        let mut content = String::new();
        while let Some((at, line)) = self.within() {
            let line = match line.strip_prefix('+') {
                Some(line) => line,
                None if line.trim().is_empty() => "",
                None => return Err(syntax(at, "every line of a new file must begin with `+`".to_owned())),
            };
            content.push_str(line);
            content.push('\n');
        }
        Ok(content)
    }

    fn target(&mut self) -> Result<Option<String>, Error> {
        let moved = self.lines.next_if(|(_, line)| line.trim().starts_with(MOVE));
        moved.map(|(at, line)| name(line.trim().strip_prefix(MOVE).unwrap_or_default(), at)).transpose()
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, Error> {
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut hunk = Hunk::default();
        loop {
            if let Some((_, _end)) = self.lines.next_if(|(_, line)| line.trim() == END_OF_FILE) {
                hunk.at_end = true;
                continue;
            }
            let Some((at, line)) = self.within() else { break };
            if let Some(above) = line.strip_prefix("@@") {
                if !hunk.lines.is_empty() {
                    hunks.push(std::mem::take(&mut hunk));
                }
                hunk.above.extend(heading(above));
                continue;
            }
            let mut characters = line.chars();
            let (sign, rest) = (characters.next(), characters.as_str().to_owned());
            hunk.lines.push(match sign {
                Some(' ') => Line::Keep(rest),
                Some('-') => Line::Remove(rest),
                Some('+') => Line::Insert(rest),
                // Models omit the space of an empty line.
                None => Line::Keep(String::new()),
                Some(_) => {
                    let message =
                        format!("a line of a change must begin with ` `, `-`, `+` or `@@`, not `{line}`");
                    return Err(syntax(at, message));
                }
            });
        }
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        }
        // Blank lines between two files belong to neither.
        if let Some(last) = hunks.last_mut()
            && !last.at_end
        {
            while last.lines.len() > 1 && last.lines.last() == Some(&Line::Keep(String::new())) {
                last.lines.pop();
            }
        }
        Ok(hunks)
    }
}

/// The text after `@@`. Line numbers of ordinary diffs are ignored, because models cannot count.
fn heading(text: &str) -> Option<String> {
    let text = match text.trim_start().strip_prefix('-').and_then(|rest| rest.split_once("@@")) {
        Some((_, named)) => named,
        None => text.strip_prefix(' ').unwrap_or(text),
    };
    let text = text.trim_end().trim_end_matches("@@").trim_end();
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn name(path: &str, at: usize) -> Result<String, Error> {
    let path = path.trim();
    if path.is_empty() {
        return Err(syntax(at, "a file must have a name".to_owned()));
    }
    Ok(path.to_owned())
}

fn syntax(at: usize, message: String) -> Error {
    Error::Syntax { line: at + 1, message }
}
