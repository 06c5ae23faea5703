//! Commands that only read, recognised by the known options of their programs.
//!
//! Every allowed option is listed in full. An unknown or abbreviated option, or a word that a wildcard may turn
//! into one, makes the command ask. A command that passes runs without a question, in a sandbox in which it cannot
//! write.

mod git;

use super::plain::Word;

/// The reason why a command is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harmless {
    /// It cannot start another program.
    Inert,
    /// A repository's configuration can make it start programs, so it needs the sandbox.
    Git,
}

/// The commands as rules name them. [`judge`] decides whether their options are harmless, too.
pub(crate) const PATTERNS: [&str; 25] = [
    "echo *",
    "false",
    "git --no-pager diff *",
    "git --no-pager log *",
    "git --no-pager show *",
    "git --no-pager status *",
    "git branch",
    "git branch --list *",
    "git branch --show-current",
    "git branch -a",
    "git branch -r",
    "git branch -v",
    "git branch -vv",
    "git diff *",
    "git log *",
    "git show *",
    "git status *",
    "ls *",
    "pwd",
    "sleep *",
    "true",
    "uname *",
    "wc *",
    "which *",
    "whoami",
];

const LS: Grammar = Grammar {
    flags: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
    valued: "IwT",
    long: &[
        "all",
        "almost-all",
        "author",
        "escape",
        "ignore-backups",
        "color",
        "directory",
        "classify",
        "file-type",
        "full-time",
        "no-group",
        "group-directories-first",
        "human-readable",
        "si",
        "dereference",
        "dereference-command-line",
        "inode",
        "kibibytes",
        "literal",
        "numeric-uid-gid",
        "hide-control-chars",
        "show-control-chars",
        "quote-name",
        "reverse",
        "recursive",
        "size",
        "context",
        "zero",
        "help",
        "version",
    ],
    long_valued: &[
        "block-size",
        "format",
        "hide",
        "indicator-style",
        "ignore",
        "quoting-style",
        "sort",
        "time",
        "time-style",
        "tabsize",
        "width",
    ],
    // Whatever a wildcard expands to, `ls` only lists.
    wildcards: true,
    ..Grammar::NONE
};

const WC: Grammar = Grammar {
    flags: "cmlLw",
    long: &["bytes", "chars", "lines", "max-line-length", "words", "help", "version"],
    long_valued: &["total"],
    ..Grammar::NONE
};

const UNAME: Grammar = Grammar {
    flags: "asnrvmpio",
    long: &[
        "all",
        "kernel-name",
        "nodename",
        "kernel-release",
        "kernel-version",
        "machine",
        "processor",
        "hardware-platform",
        "operating-system",
        "help",
        "version",
    ],
    ..Grammar::NONE
};

const WHICH: Grammar = Grammar { flags: "a", ..Grammar::NONE };

const PWD: Grammar = Grammar { flags: "LP", ..Grammar::NONE };

/// Returns the reason why a command is harmless, or `None` if it may not be.
pub(super) fn judge(words: &[Word]) -> Option<Harmless> {
    let (name, arguments) = words.split_first()?;
    let inert = match name.text.as_str() {
        "echo" => arguments.iter().all(|word| !word.may_lead_away()),
        "true" | "false" | "whoami" => arguments.is_empty(),
        "pwd" => PWD.accepts(arguments),
        "sleep" => matches!(arguments, [time] if is_duration(&time.text)),
        "ls" => LS.accepts(arguments),
        "wc" => WC.accepts(arguments),
        "uname" => UNAME.accepts(arguments),
        "which" => WHICH.accepts(arguments),
        "git" => return git::is_harmless(arguments).then_some(Harmless::Git),
        _ => false,
    };
    inert.then_some(Harmless::Inert)
}

fn is_duration(text: &str) -> bool {
    let number = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    number.split_once('.').map_or_else(|| digits(number), |(whole, part)| digits(whole) && digits(part))
}

/// The options of a command that are known to be harmless.
#[derive(Debug, Clone, Copy)]
struct Grammar {
    /// One-letter options without a value.
    flags: &'static str,
    /// One-letter options with a value, in the same word or in the next one.
    valued: &'static str,
    /// One-letter options with a number in the same word, or none.
    numbered: &'static str,
    /// True if `-12` is an option.
    numbers: bool,
    /// Words that are accepted as they are.
    exact: &'static [&'static str],
    /// Long options without a value, or with one after `=`.
    long: &'static [&'static str],
    /// Long options with a value, after `=` or in the next word.
    long_valued: &'static [&'static str],
    /// True if a word that begins with a wildcard is harmless although it may become an option.
    wildcards: bool,
    /// Returns true for other words that are accepted.
    operand: fn(&str) -> bool,
}

impl Grammar {
    const NONE: Self = Self {
        flags: "",
        valued: "",
        numbered: "",
        numbers: false,
        exact: &[],
        long: &[],
        long_valued: &[],
        wildcards: false,
        operand: |_| true,
    };

    /// Returns true if all arguments are known to be harmless.
    fn accepts(&self, arguments: &[Word]) -> bool {
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let taken = match self.read(word) {
                Read::End => return rest.all(|word| self.is_operand(word)),
                Read::Fine => true,
                // A value that looks like an option, such as `--`, might be one: programs differ in this.
                Read::NeedsValue => rest.next().is_some_and(|value| {
                    !value.text.starts_with('-') && !value.begins_anyhow() && self.is_operand(value)
                }),
                Read::Unknown => false,
            };
            if !taken {
                return false;
            }
        }
        true
    }

    fn is_operand(&self, word: &Word) -> bool {
        !word.may_lead_away() && (self.operand)(&word.text)
    }

    fn read(&self, word: &Word) -> Read {
        let text = word.text.as_str();
        if text == "--" {
            return Read::End;
        }
        if self.exact.contains(&text) {
            return Read::Fine;
        }
        if let Some(long) = text.strip_prefix("--") {
            return self.long(long);
        }
        match text.strip_prefix('-') {
            Some(letters) if !letters.is_empty() => self.short(letters),
            _ if word.begins_anyhow() && !self.wildcards => Read::Unknown,
            _ => Read::known(self.is_operand(word)),
        }
    }

    fn long(&self, option: &str) -> Read {
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        if self.long.contains(&name) {
            return Read::Fine;
        }
        match (self.long_valued.contains(&name), value) {
            (false, _) => Read::Unknown,
            (true, None) => Read::NeedsValue,
            (true, Some(_)) => Read::Fine,
        }
    }

    /// Reads one-letter options, which may share a word.
    fn short(&self, letters: &str) -> Read {
        if self.numbers && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Read::Fine;
        }
        for (at, letter) in letters.char_indices() {
            let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            if self.valued.contains(letter) {
                return if rest.is_empty() { Read::NeedsValue } else { Read::known((self.operand)(rest)) };
            }
            if self.numbered.contains(letter) && !rest.is_empty() {
                return Read::known(rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'%'));
            }
            if !self.flags.contains(letter) && !self.numbered.contains(letter) {
                return Read::Unknown;
            }
        }
        Read::Fine
    }
}

/// One word as a grammar reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Fine,
    /// The next word is the option's value.
    NeedsValue,
    /// No options follow this word.
    End,
    Unknown,
}

impl Read {
    fn known(is_known: bool) -> Self {
        if is_known { Self::Fine } else { Self::Unknown }
    }
}

#[cfg(test)]
mod tests;
