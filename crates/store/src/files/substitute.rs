//! `{env:NAME}` and `{file:path}` in a configuration's text.
//!
//! They are replaced before the text is parsed as JSON, as OpenCode does, so they work outside of strings too
//! (`"port": {env:PORT}`). Values are escaped, so they can end neither a string nor a line. Comments are left
//! unchanged. A variable that is not set is empty; a file that cannot be read is an error.
//!
//! In a text that is not trusted nothing is read: [`conceal`] replaces each reference with a mark, and values that
//! contain a mark do not count.
//!
//! Errors found later have offsets in the new text; [`Substituted::origin`] maps them to the old one.

use std::{
    iter::Peekable,
    path::{Path, PathBuf},
    str::CharIndices,
};

use super::Environment;

/// Replaces a reference in an untrusted text. A text that already contains the mark is withheld too, so the mark
/// need not be secret.
pub(super) const MARK: &str = "\u{e000}withheld\u{e000}";

/// A text with all references replaced.
#[derive(Debug)]
pub(super) struct Substituted {
    pub(super) text: String,
    replaced: Vec<Replaced>,
    /// Files that were included.
    pub(super) files: Vec<PathBuf>,
    /// Variables that are not set, with their offset in the old text.
    pub(super) unset: Vec<(usize, String)>,
    /// Files that cannot be read, with their offset in the old text and the reason.
    pub(super) unread: Vec<(usize, PathBuf, String)>,
}

/// A replaced range, in the new text and in the old.
#[derive(Debug)]
struct Replaced {
    new: (usize, usize),
    old: (usize, usize),
}

impl Substituted {
    /// The offset in the old text of an offset in the new one.
    pub(super) fn origin(&self, offset: usize) -> usize {
        match self.replaced.iter().rfind(|replaced| replaced.new.0 <= offset) {
            None => offset,
            Some(Replaced { new, old }) if offset < new.1 => old.0,
            Some(Replaced { new, old }) => old.1 + (offset - new.1),
        }
    }
}

/// The syntactic context of a character.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Plain,
    Quoted,
    LineComment,
    BlockComment,
}

/// Replaces all references in `text`. Paths are relative to `from`; `read` returns a file's text, or the reason why
/// it cannot.
pub(super) fn substitute(
    text: &str,
    environment: &Environment,
    from: &Path,
    read: &dyn Fn(&Path) -> Result<String, String>,
) -> Substituted {
    replace(text, environment, &mut |at, _, reference, out| {
        escaped(&reference.value(at, environment, from, read, out))
    })
}

/// Replaces every reference with a mark, and reads nothing.
pub(super) fn conceal(text: &str) -> Substituted {
    replace(text, &Environment::default(), &mut |_, part, _, _| {
        if part == Part::Quoted { MARK.to_owned() } else { format!("\"{MARK}\"") }
    })
}

/// Replaces every reference with the result of `fill`.
fn replace(
    text: &str,
    environment: &Environment,
    fill: &mut dyn FnMut(usize, Part, &Reference, &mut Substituted) -> String,
) -> Substituted {
    let mut out = Substituted {
        text: String::with_capacity(text.len()),
        replaced: Vec::new(),
        files: Vec::new(),
        unset: Vec::new(),
        unread: Vec::new(),
    };
    let mut part = Part::Plain;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let rest = text.get(at..).unwrap_or_default();
        let reference = (letter == '{' && matches!(part, Part::Plain | Part::Quoted))
            .then(|| reference(rest, environment))
            .flatten();
        if let Some(reference) = reference {
            let start = out.text.len();
            let value = fill(at, part, &reference, &mut out);
            out.text.push_str(&value);
            out.replaced.push(Replaced { new: (start, out.text.len()), old: (at, at + reference.length) });
            while letters.next_if(|(next, _)| *next < at + reference.length).is_some() {}
            continue;
        }
        out.text.push(letter);
        part = follow(part, letter, &mut letters, &mut out.text);
    }
    out
}

/// The context after a character. Two-character tokens are consumed whole.
fn follow(part: Part, letter: char, letters: &mut Peekable<CharIndices<'_>>, out: &mut String) -> Part {
    let mut then = |expected: fn(char) -> bool| {
        let next = letters.next_if(|(_, letter)| expected(*letter));
        out.extend(next.map(|(_, letter)| letter));
        next.map(|(_, letter)| letter)
    };
    match (part, letter) {
        (Part::Plain, '"') => Part::Quoted,
        (Part::Plain, '/') => match then(|next| next == '/' || next == '*') {
            Some('/') => Part::LineComment,
            Some(_) => Part::BlockComment,
            None => part,
        },
        (Part::Quoted, '\\') => {
            then(|next| next == '"' || next == '\\');
            part
        }
        (Part::Quoted, '"') | (Part::LineComment, '\n') => Part::Plain,
        (Part::BlockComment, '*') if then(|next| next == '/').is_some() => Part::Plain,
        _ => part,
    }
}

/// A placeholder in the text.
struct Reference {
    what: Target,
    /// Length of the placeholder itself, in bytes.
    length: usize,
}

enum Target {
    Variable(String),
    File { path: String, unset: Vec<String> },
}

impl Reference {
    fn value(
        &self,
        at: usize,
        environment: &Environment,
        from: &Path,
        read: &dyn Fn(&Path) -> Result<String, String>,
        out: &mut Substituted,
    ) -> String {
        match &self.what {
            Target::Variable(name) => {
                let value = environment.text(name);
                if value.is_none() {
                    out.unset.push((at, name.clone()));
                }
                value.unwrap_or_default().to_owned()
            }
            Target::File { path, unset } => {
                out.unset.extend(unset.iter().map(|name| (at, name.clone())));
                let path = environment.resolve(path, from);
                match read(&path) {
                    Ok(text) => {
                        out.files.push(path);
                        text.trim().to_owned()
                    }
                    Err(reason) => {
                        out.unread.push((at, path, reason));
                        String::new()
                    }
                }
            }
        }
    }
}

/// The placeholder at the beginning of a text, if there is one. It does not extend beyond its line or string.
fn reference(text: &str, environment: &Environment) -> Option<Reference> {
    if let Some(name) = variable(text) {
        return Some(Reference {
            length: "{env:}".len() + name.len(),
            what: Target::Variable(name.to_owned()),
        });
    }
    let rest = text.strip_prefix("{file:")?;
    let (mut path, mut unset, mut skip) = (String::new(), Vec::new(), 0);
    for (at, letter) in rest.char_indices() {
        if at < skip {
            continue;
        }
        let name = (letter == '{').then(|| rest.get(at..).and_then(variable)).flatten();
        if let Some(name) = name {
            match environment.text(name) {
                Some(value) => path.push_str(value),
                None => unset.push(name.to_owned()),
            }
            skip = at + "{env:}".len() + name.len();
            continue;
        }
        match letter {
            '}' if path.is_empty() => return None,
            '}' => {
                return Some(Reference {
                    length: "{file:".len() + at + 1,
                    what: Target::File { path, unset },
                });
            }
            '"' | '\n' => return None,
            letter => path.push(letter),
        }
    }
    None
}

/// The name in an `{env:NAME}` at the beginning of a text.
fn variable(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("{env:")?.split_once('}')?;
    (!name.is_empty() && !name.contains(['"', '\n', '{'])).then_some(name)
}

/// Escapes a text for a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Substituted {
        let environment =
            Environment::of([("HOME", "/h"), ("A", "x\"\ny"), ("PORT", "80"), ("F", "{file:/secret}")]);
        substitute(text, &environment, Path::new("/p"), &|path| match path.to_str() {
            Some("/p/a.txt") => Ok(" one\ntwo \n".into()),
            Some("/h/b.txt") => Ok("from {env:PORT}".into()),
            Some("/secret") => Ok("never".into()),
            _ => Err("it does not exist".into()),
        })
    }

    #[test]
    fn variables_and_files_are_substituted() {
        let cases = [
            (r#"{"a":"{env:PORT}"}"#, r#"{"a":"80"}"#),
            (r#"{"a":{env:PORT}}"#, r#"{"a":80}"#),
            (r#"["{env:A}"]"#, r#"["x\"\ny"]"#),
            (r#"["{env:NO}!"]"#, r#"["!"]"#),
            (r#"["{file:a.txt}"]"#, r#"["one\ntwo"]"#),
            // Replaced values are not searched for references again.
            (r#"["{file:~/b.txt}"]"#, r#"["from {env:PORT}"]"#),
            (r#"["{env:F}"]"#, r#"["{file:/secret}"]"#),
            (r#"["{file:{env:HOME}/b.txt}"]"#, r#"["from {env:PORT}"]"#),
            ("// {file:no}\n[\"{env:PORT}\"]", "// {file:no}\n[\"80\"]"),
            ("/* {file:no} */[{env:PORT}]", "/* {file:no} */[80]"),
            (r#"["https://x", "{env:PORT}"]"#, r#"["https://x", "80"]"#),
            (r#"["\"{env:PORT}\\"]"#, r#"["\"80\\"]"#),
            (
                r#"["{env:", "{file:", "{env:}", "{file:}", "{"]"#,
                r#"["{env:", "{file:", "{env:}", "{file:}", "{"]"#,
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(run(text).text, expected, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_trusted_gets_marks_instead_of_values() {
        let cases = [
            (r#"{"a":"x {env:PORT}"}"#, format!(r#"{{"a":"x {MARK}"}}"#)),
            (r#"{"a":{env:PORT}}"#, format!(r#"{{"a":"{MARK}"}}"#)),
            (r#"["{file:/secret}"]"#, format!(r#"["{MARK}"]"#)),
            (r#"["{file:{env:HOME}}"]"#, format!(r#"["{{file:{MARK}}}"]"#)),
            (r#"["{file:{env:HOME}/x}"]"#, format!(r#"["{MARK}"]"#)),
            ("// {env:PORT}\n[1]", "// {env:PORT}\n[1]".to_owned()),
        ];
        for (text, expected) in cases {
            let out = conceal(text);
            assert_eq!(out.text, expected, "{text}");
            assert!(out.files.is_empty() && out.unset.is_empty() && out.unread.is_empty());
        }
    }

    #[test]
    fn missing_variables_and_files_are_reported_with_their_offset() {
        let text = "[\n\"{env:NO}\", \"{file:{env:NO}no}\"]";
        let out = run(text);
        assert_eq!(out.unset, [(3, "NO".to_owned()), (15, "NO".to_owned())]);
        assert_eq!(out.unread, [(15, PathBuf::from("/p/no"), "it does not exist".to_owned())]);
    }

    #[test]
    fn offsets_lead_back_to_the_old_text() {
        let text = r#"{"a":"{env:A}","b":"{env:PORT}","c":1}"#;
        let out = run(text);
        for key in ["\"a\"", "\"b\"", "\"c\"", "1}"] {
            assert_eq!(out.origin(out.text.find(key).unwrap()), text.find(key).unwrap(), "{key}");
        }
        // An offset inside a replaced value maps to its reference.
        assert_eq!(out.origin(out.text.find("80").unwrap() + 1), text.find("{env:PORT}").unwrap());
    }
}
