//! Splits a command line into commands, so that rules can judge each of them.
//!
//! A line is read twice at most. The plain reading ([`plain`]) accepts only lines whose words mean what they show;
//! rules about their words can allow such commands. Any other line is opaque: its commands are found with a grammar
//! ([`tree`]) so that rules can deny them, and only a rule about everything or about exactly this line allows it.

mod arity;
mod exact;
mod harmless;
mod plain;
mod tree;
mod words;

use protocol::request::{Action, Rule};

use super::rules::{is_confined, matches};
use arity::naming;
pub(crate) use harmless::Harmless;
pub(super) use harmless::PATTERNS as HARMLESS;

/// Longer lines are not read; they are opaque.
const MAX_LINE: usize = 64 * 1024;

/// Commands whose arguments are files, so that a plain word can be a path, too.
const FILE_COMMANDS: [&str; 36] = [
    "awk", "cat", "cd", "chgrp", "chmod", "chown", "cp", "cut", "diff", "du", "file", "find", "grep", "head",
    "less", "ln", "ls", "mkdir", "more", "mv", "pushd", "readlink", "rg", "rm", "rmdir", "rsync", "sed",
    "sort", "source", "stat", "tail", "tar", "tee", "touch", "truncate", "wc",
];

/// Those of them that create missing directories.
const CREATING: [&str; 3] = ["mkdir", "rsync", "tar"];

/// One simple command of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Command {
    /// As it was written.
    pub(crate) text: String,
    /// Without quotes.
    pub(crate) words: Vec<String>,
    /// The files of its redirections.
    pub(crate) files: Vec<String>,
    /// True if the line may do more than its words show: substitutions, variables, redirections, control flow.
    pub(crate) opaque: bool,
    /// The reason why it is harmless, if it is known to be.
    pub(crate) harmless: Option<Harmless>,
    /// The pattern that allows nothing but this command.
    exact: String,
}

/// The origin of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The configuration, an agent or a session.
    Rules,
    /// A reply of `always`.
    Approval,
}

impl Command {
    fn opaque(text: &str) -> Self {
        let text = text.trim().to_owned();
        Self { exact: text.clone(), text, opaque: true, ..Self::default() }
    }

    fn plain(simple: &plain::Simple, line: &str) -> Self {
        let text = line.get(simple.start..simple.end).unwrap_or_default().to_owned();
        Self {
            harmless: harmless::judge(&simple.words),
            words: simple.words.iter().map(|word| word.text.clone()).collect(),
            exact: text.clone(),
            text,
            ..Self::default()
        }
    }

    fn name(&self) -> &str {
        self.words.first().map(String::as_str).unwrap_or_default()
    }

    /// Returns true if it only changes the shell's directory.
    pub(crate) fn changes_directory(&self) -> bool {
        matches!(self.name(), "cd" | "pushd" | "popd")
    }

    /// Returns the directory that it changes to, if it names one.
    pub(crate) fn destination(&self) -> Option<&str> {
        let mut arguments = self.words.iter().skip(1).map(String::as_str);
        arguments.rfind(|word| !word.starts_with('-')).filter(|_| self.changes_directory())
    }

    /// Returns true if it is a `cd` without a directory.
    fn changes_to_home(&self) -> bool {
        let is_option = |word: &String| word.starts_with('-') && word != "-";
        self.name() == "cd" && self.words.iter().skip(1).all(is_option)
    }

    /// Returns the pattern that a reply of `always` allows: the same program or subcommand with any arguments, or
    /// only the same command if the program runs its arguments.
    pub(crate) fn always(&self) -> String {
        let is_simple = |word: &String| quoted(word) == *word && !word.contains(['*', '?']);
        match naming(&self.words).filter(|named| named.iter().all(is_simple)) {
            Some(named) if !self.opaque && !exact::only(&self.words) => format!("{} *", named.join(" ")),
            _ => self.exact.clone(),
        }
    }

    /// Returns true if a rule applies to this command. A rule that allows must match the words; a rule that denies
    /// or asks may match any possible meaning.
    pub(super) fn is_subject_of(&self, rule: &Rule, source: Source) -> bool {
        let pattern = rule.pattern.as_str();
        if rule.action != Action::Allow {
            return [&self.text, &self.words.join(" "), &self.canonical()]
                .into_iter()
                .any(|form| matches(pattern, form));
        }
        if is_confined(rule) {
            return self.harmless.is_some() && matches(pattern, &self.canonical());
        }
        if pattern == "*" || pattern == self.exact {
            return true;
        }
        match source {
            _ if self.opaque => false,
            Source::Approval => self.is_within(pattern),
            // Quotes in a pattern are compared as they are written.
            Source::Rules => {
                matches(pattern, &self.canonical())
                    || (pattern.contains(['"', '\'', '\\']) && matches(pattern, &self.text))
            }
        }
    }

    /// Returns true if an approval such as `git commit *` covers this command. An approval for a program that runs
    /// its arguments, which earlier versions offered, covers nothing.
    fn is_within(&self, pattern: &str) -> bool {
        let Some(named) = pattern.strip_suffix(" *").filter(|named| !named.contains(['*', '?'])) else {
            return false;
        };
        let mut words = self.words.iter();
        named.split(' ').all(|name| words.next().is_some_and(|word| word == name))
            && !exact::only(&self.words)
            && self.always().ends_with(" *")
    }

    /// Returns its words with one blank between them, quoted where they could be taken for several.
    fn canonical(&self) -> String {
        self.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the arguments that name a path which could be outside of the project.
    pub(crate) fn path_arguments(&self) -> impl Iterator<Item = PathArgument<'_>> {
        let (name, on_files) = (self.name(), FILE_COMMANDS.contains(&self.name()));
        let creates = CREATING.contains(&name);
        let values = self.words.iter().skip(1).filter_map(|word| match word.split_once('=') {
            Some((_, value)) => Some(value),
            None => (!word.starts_with('-')).then_some(word.as_str()),
        });
        let arguments = values.map(move |path| PathArgument { path, creates });
        let arguments = arguments.filter(move |argument| on_files || argument.may_be_outside());
        let home = self.changes_to_home().then_some(PathArgument { path: "~", creates: false });
        arguments.chain(home).chain(self.files.iter().map(|path| PathArgument { path, creates: false }))
    }
}

/// A word that may be a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathArgument<'a> {
    pub(crate) path: &'a str,
    /// True if the command may create missing directories of the path.
    pub(crate) creates: bool,
}

impl PathArgument<'_> {
    /// Returns true if the path is in a home directory.
    pub(crate) fn is_home(&self) -> bool {
        self.path.starts_with('~') || self.path.starts_with("$HOME") || self.path.starts_with("${HOME}")
    }

    fn may_be_outside(&self) -> bool {
        self.path.starts_with('/')
            || self.is_home()
            || self.path.split('/').any(|component| component == "..")
    }
}

/// Returns the simple commands of a line, in the order they are written.
pub(crate) fn commands(line: &str) -> Vec<Command> {
    if line.len() > MAX_LINE {
        return vec![Command::opaque(line)];
    }
    match plain::read(line) {
        Some(found) => found.iter().map(|simple| Command::plain(simple, line)).collect(),
        None => tree::commands(line),
    }
}

/// Returns a word, in quotes if it is empty or has characters that separate or quote.
fn quoted(word: &str) -> String {
    let is_safe = |character: char| !(character.is_whitespace() || matches!(character, '\'' | '"' | '\\'));
    if !word.is_empty() && word.chars().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
