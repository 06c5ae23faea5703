//! The commands in a command line, so that rules can be about each of them.
//!
//! This is not a shell. It only has to be on the safe side: whatever it does not understand makes a command
//! opaque, and an opaque command is not allowed by a rule about its first word.

/// One simple command of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::native) struct Command {
    /// As it was written.
    pub(in crate::native) text: String,
    /// Its words, without quotes.
    pub(in crate::native) words: Vec<String>,
    /// Whether it may do more than its words show: substitutions, variables, redirections, open quotes.
    pub(in crate::native) opaque: bool,
}

impl Command {
    /// Whether it only changes the shell's directory.
    pub(in crate::native) fn moves(&self) -> bool {
        matches!(self.words.first().map(String::as_str), Some("cd" | "pushd" | "popd"))
    }

    /// What a reply of `always` allows: the same program, or the same part of it, with any arguments.
    pub(in crate::native) fn always(&self) -> String {
        if self.opaque {
            return self.text.clone();
        }
        let named = arity(&self.words).min(self.words.len());
        let prefix: Vec<&str> = self.words.iter().take(named).map(String::as_str).collect();
        format!("{} *", prefix.join(" "))
    }

    /// Arguments that name a place which could be outside of the project.
    pub(in crate::native) fn places(&self) -> impl Iterator<Item = &str> {
        self.words
            .iter()
            .skip(1)
            .map(|word| word.split_once('=').map_or(word.as_str(), |(_, value)| value))
            .filter(|word| word.starts_with(['/', '~']) || word.split('/').any(|component| component == ".."))
    }
}

/// How many words name what a command does. Programs with subcommands need more than one.
fn arity(words: &[String]) -> usize {
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    match (word(0), word(1)) {
        ("git", "remote" | "stash" | "config" | "worktree" | "submodule")
        | ("npm" | "pnpm" | "yarn" | "bun", "run" | "exec" | "init" | "view")
        | ("docker", "compose" | "container" | "image" | "network" | "volume")
        | ("cargo", "run" | "add")
        | ("aws" | "az" | "gcloud" | "gh" | "doctl" | "sfdx", _) => 3,
        (
            "git" | "npm" | "pnpm" | "yarn" | "bun" | "cargo" | "docker" | "kubectl" | "go" | "make" | "pip"
            | "python" | "terraform" | "systemctl" | "brew" | "apt",
            _,
        ) => 2,
        _ => 1,
    }
}

/// The simple commands of a line, those in substitutions included.
pub(in crate::native) fn commands(line: &str) -> Vec<Command> {
    let mut found = Vec::new();
    Reader { rest: line, found: &mut found }.read();
    found
}

struct Reader<'a, 'f> {
    rest: &'a str,
    found: &'f mut Vec<Command>,
}

#[derive(Default)]
struct Draft {
    text: String,
    words: Vec<String>,
    word: Option<String>,
    opaque: bool,
}

impl Draft {
    fn push(&mut self, character: char) {
        self.text.push(character);
        self.word.get_or_insert_default().push(character);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }
}

impl Reader<'_, '_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = self.rest.get(character.len_utf8()..).unwrap_or_default();
        Some(character)
    }

    fn skip(&mut self, text: &str) -> bool {
        self.rest.strip_prefix(text).map(|rest| self.rest = rest).is_some()
    }

    fn read(&mut self) {
        let mut draft = Draft::default();
        while let Some(character) = self.next() {
            match character {
                '\'' => self.single(&mut draft),
                '"' => self.double(&mut draft),
                '\\' if self.skip("\n") => draft.text.push(' '),
                '\\' => {
                    draft.text.push('\\');
                    match self.next() {
                        Some(escaped) => draft.push(escaped),
                        None => draft.opaque = true,
                    }
                }
                '$' | '`' => self.substitution(character, &mut draft),
                '<' | '>' => self.redirection(character, &mut draft),
                '#' if draft.word.is_none() => {
                    self.rest = self.rest.find('\n').and_then(|at| self.rest.get(at..)).unwrap_or_default();
                }
                ';' | '&' | '|' | '\n' | '(' | ')' => self.finish(&mut draft),
                space if space.is_whitespace() => {
                    draft.text.push(space);
                    draft.end_word();
                }
                other => draft.push(other),
            }
        }
        self.finish(&mut draft);
    }

    fn finish(&mut self, draft: &mut Draft) {
        let mut draft = std::mem::take(draft);
        draft.end_word();
        let text = draft.text.trim().to_owned();
        if !text.is_empty() {
            self.found.push(Command { text, words: draft.words, opaque: draft.opaque });
        }
    }

    fn single(&mut self, draft: &mut Draft) {
        draft.text.push('\'');
        draft.word.get_or_insert_default();
        loop {
            match self.next() {
                Some('\'') => return draft.text.push('\''),
                Some(character) => draft.push(character),
                None => return draft.opaque = true,
            }
        }
    }

    fn double(&mut self, draft: &mut Draft) {
        draft.text.push('"');
        draft.word.get_or_insert_default();
        loop {
            match self.next() {
                Some('"') => return draft.text.push('"'),
                Some('\\') => {
                    draft.text.push('\\');
                    match self.next() {
                        Some(escaped) => draft.push(escaped),
                        None => return draft.opaque = true,
                    }
                }
                Some(character @ ('$' | '`')) => self.substitution(character, draft),
                Some(character) => draft.push(character),
                None => return draft.opaque = true,
            }
        }
    }

    /// A variable, or a command within a command, which is then a command of its own.
    fn substitution(&mut self, opening: char, draft: &mut Draft) {
        draft.opaque = true;
        draft.push(opening);
        let inner = if opening == '`' {
            self.rest.split_once('`').map(|(inner, _)| inner)
        } else if self.rest.starts_with('(') {
            enclosed(self.rest)
        } else {
            None
        };
        let Some(inner) = inner else { return };
        Reader { rest: inner.trim_start_matches('('), found: self.found }.read();
        // Over the inner text and its closing character; the opening parenthesis counts for `$(`.
        let length = inner.len() + 1;
        let taken = self.rest.get(..length).unwrap_or(self.rest).to_owned();
        for character in taken.chars() {
            draft.push(character);
        }
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    /// Output into nothing or into another stream is harmless, everything else makes a command opaque.
    fn redirection(&mut self, sign: char, draft: &mut Draft) {
        draft.text.push(sign);
        if sign == '>' {
            for harmless in ["&1", "&2", "/dev/null", " /dev/null"] {
                let ends = |rest: &str| {
                    rest.chars().next().is_none_or(|next| next.is_whitespace() || ";&|)".contains(next))
                };
                if self.rest.strip_prefix(harmless).is_some_and(ends) {
                    self.skip(harmless);
                    draft.text.push_str(harmless);
                    // `2` in `2>` is the number of a stream, not a word.
                    if matches!(draft.word.as_deref(), Some("1" | "2")) {
                        draft.word = None;
                    }
                    return draft.end_word();
                }
            }
        }
        draft.opaque = true;
        draft.end_word();
    }
}

/// What is between a parenthesis and the one that closes it, the opening one included.
fn enclosed(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return text.get(..at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        commands(line)
            .into_iter()
            .map(|command| format!("{}{}", if command.opaque { "!" } else { "" }, command.text))
            .collect()
    }

    #[test]
    fn lines_are_split_into_commands() {
        assert_eq!(texts("touch a && echo done"), ["touch a", "echo done"]);
        assert_eq!(texts("a; b | c || d & e\nf"), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(texts("(cd x && make)"), ["cd x", "make"]);
        assert_eq!(texts("echo 'a; b' \"c && d\" e\\;f"), ["echo 'a; b' \"c && d\" e\\;f"]);
        assert_eq!(texts("ls # rm -rf /\npwd"), ["ls", "pwd"]);
        assert_eq!(texts("  "), Vec::<String>::new());
    }

    #[test]
    fn words_have_no_quotes() {
        let command = &commands("grep -n 'two words' \"a\"b c\\ d ''")[0];
        assert_eq!(command.words, ["grep", "-n", "two words", "ab", "c d", ""]);
    }

    #[test]
    fn what_does_more_than_it_shows_is_opaque() {
        for line in [
            "echo $HOME",
            "cat < x",
            "echo x > y",
            "echo 'open",
            "ls \"$x\"",
            "cat <<EOF\nhi\nEOF",
            "echo \\",
        ] {
            assert!(commands(line).iter().any(|command| command.opaque), "{line}");
        }
        for line in ["echo '$HOME `x` > y'", "ls 2>/dev/null", "make >/dev/null 2>&1", "ls > /dev/null; pwd"]
        {
            assert!(commands(line).iter().all(|command| !command.opaque), "{line}");
        }
        assert!(commands("echo x >/dev/nullified")[0].opaque);
    }

    #[test]
    fn commands_in_commands_are_found() {
        assert_eq!(texts("echo $(rm -rf x) y"), ["rm -rf x", "!echo $(rm -rf x) y"]);
        assert_eq!(texts("echo \"a `rm x` b\""), ["rm x", "!echo \"a `rm x` b\""]);
        assert_eq!(
            texts("echo $(echo $(rm x); ls)"),
            ["rm x", "!echo $(rm x)", "ls", "!echo $(echo $(rm x); ls)"]
        );
        assert_eq!(texts("echo $(rm x"), ["!echo $", "rm x"]);
        assert_eq!(texts("echo `rm x"), ["!echo `rm x"]);
    }

    #[test]
    fn always_names_the_program_and_its_subcommand() {
        for (line, always) in [
            ("touch /else/x", "touch *"),
            ("git commit -m x", "git commit *"),
            ("git remote add a b", "git remote add *"),
            ("npm run build -- -x", "npm run build *"),
            ("make", "make *"),
            ("echo $x", "echo $x"),
        ] {
            assert_eq!(commands(line)[0].always(), always, "{line}");
        }
    }

    #[test]
    fn places_that_could_be_outside_are_found() {
        let command = &commands("cp a/b ../x /etc/y ~/z --out=/o ..a a/../b")[0];
        assert_eq!(command.places().collect::<Vec<_>>(), ["../x", "/etc/y", "~/z", "/o", "a/../b"]);
        assert!(commands("cd /else")[0].moves());
    }
}
