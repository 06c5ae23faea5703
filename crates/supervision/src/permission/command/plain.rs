//! The plain reading of a command line.
//!
//! A rule can only judge a command by its words if every shell sees the same words. So this reader accepts a narrow
//! part of the shell's language: simple commands of literal words, quoted or not, joined by `&&`, `||`, `|`, `;`
//! and new lines, with `/dev/null` as the only file in redirections. It rejects everything else, and a rejected
//! line is opaque. Rejecting too much costs a question; accepting too much would run commands without one.

/// Words that run the command after them without changing its effect.
const TRANSPARENT: [&str; 5] = ["builtin", "command", "exec", "nohup", "time"];

/// Words that begin something other than a simple command.
const RESERVED: [&str; 20] = [
    "!", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "until", "while", "time",
];

/// Builtins that read their arguments as shell code, or change the meaning of later words.
const REINTERPRETING: [&str; 17] = [
    "alias",
    "bind",
    "compgen",
    "complete",
    "declare",
    "enable",
    "eval",
    "export",
    "fc",
    "hash",
    "let",
    "local",
    "mapfile",
    "readarray",
    "readonly",
    "trap",
    "typeset",
];

/// Builtins that evaluate an argument as the name of a variable: in `test -v 'a[$(touch x)]'` bash runs `touch x`.
const EVALUATING: [&str; 6] = ["getopts", "printf", "read", "test", "unset", "wait"];

/// One word, without the quotes and backslashes that bash removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// The position of the first unquoted wildcard. The shell keeps the text before it and may replace the rest by
    /// file names.
    pub(super) wildcard: Option<usize>,
    /// True if it begins with an unquoted tilde.
    tilde: bool,
    /// True if it contains an unquoted brace.
    brace: bool,
    start: usize,
}

impl Word {
    /// Returns true if the shell passes on exactly this text.
    fn is_literal(&self) -> bool {
        self.wildcard.is_none() && !self.tilde && !self.brace
    }

    /// Returns true if the shell may expand it to words with any beginning, for instance options.
    pub(super) fn begins_anyhow(&self) -> bool {
        self.wildcard == Some(0)
    }

    /// Returns true if one of its wildcards may lead out of the project: the path is absolute, climbs, or climbs
    /// once a shell has replaced `.*` by `..`, as older ones do. Only the shell knows the result, so no rule about
    /// paths can judge it.
    pub(super) fn may_lead_away(&self) -> bool {
        let climbs = |component: &str| {
            component == ".." || (component.starts_with('.') && component.contains(['*', '?', '[']))
        };
        self.wildcard.is_some() && (self.text.starts_with('/') || self.text.split('/').any(climbs))
    }
}

/// One simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// The byte range in the line, from the first word to the last word or redirection.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Returns the commands of a plain line, or `None` if the line is not plain.
pub(super) fn read(line: &str) -> Option<Vec<Simple>> {
    if !line.chars().all(is_visible) || (!line.is_ascii() && line.contains('\\')) {
        // In some encodings a byte of a letter and a backslash form one character, which hides the backslash.
        return None;
    }
    let mut reader = Reader { line, at: 0 };
    let mut found = Vec::new();
    let mut current = Simple::default();
    // True if the last operator needs a command after it.
    let mut joined = false;
    loop {
        reader.skip_blanks();
        match reader.peek() {
            None => break,
            Some('#') => reader.skip_comment(),
            Some('\n') => {
                reader.eat("\n");
                if !current.words.is_empty() {
                    found.push(finish(std::mem::take(&mut current))?);
                } else if current.end > 0 {
                    return None;
                }
            }
            Some(_) => match reader.operator()? {
                Operator::None => {
                    let word = reader.word()?;
                    joined = false;
                    current.words.push(word);
                    current.end = reader.at;
                }
                Operator::Redirection => current.end = reader.at,
                operator @ (Operator::Join | Operator::End) => {
                    found.push(finish(std::mem::take(&mut current))?);
                    joined = matches!(operator, Operator::Join);
                }
            },
        }
    }
    if !current.words.is_empty() {
        found.push(finish(current)?);
    } else if current.end > 0 || joined {
        return None;
    }
    Some(found)
}

/// Returns true if a character is displayed as it is. Other characters may mislead the user, a shell or this
/// reader.
fn is_visible(character: char) -> bool {
    let hidden = matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    matches!(character, '\n' | '\t') || !(character.is_control() || hidden)
}

/// Removes words that only run the command after them. Returns `None` if the command's name or arguments mean more
/// than they show.
fn finish(mut simple: Simple) -> Option<Simple> {
    while let [first, next, ..] = simple.words.as_slice() {
        if !TRANSPARENT.contains(&first.text.as_str()) || !first.is_literal() || next.text.starts_with('-') {
            break;
        }
        simple.words.remove(0);
    }
    let (name, arguments) = simple.words.split_first()?;
    let text = name.text.as_str();
    let odd = !name.is_literal() || text.is_empty() || text.contains(['=', '[', '{', '}']);
    let evaluates = EVALUATING.contains(&text)
        && arguments.iter().any(|word| word.text.contains(['[', '$', '`', '(']) || !word.is_literal());
    // Only the shell knows the directory, and the following commands run there.
    let goes_anywhere =
        matches!(text, "cd" | "pushd") && arguments.iter().any(|word| word.wildcard.is_some());
    if odd || evaluates || goes_anywhere || RESERVED.contains(&text) || REINTERPRETING.contains(&text) {
        return None;
    }
    simple.start = name.start;
    Some(simple)
}

enum Operator {
    /// Not an operator: a word begins here.
    None,
    /// `&&`, `||` or `|`.
    Join,
    /// `;`, after which a command is optional.
    End,
    /// A redirection that neither reads nor writes a file.
    Redirection,
}

struct Reader<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> Reader<'l> {
    fn rest(&self) -> &'l str {
        self.line.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    /// Skips to the end of the current line.
    fn skip_comment(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    /// Reads the operator that begins here. Returns `None` for an operator that makes the line opaque.
    fn operator(&mut self) -> Option<Operator> {
        if self.eat("&&") || self.eat("||") {
            return Some(Operator::Join);
        }
        if self.eat("|") {
            return (self.peek() != Some('&')).then_some(Operator::Join);
        }
        if self.eat(";") {
            return (!matches!(self.peek(), Some(';' | '&' | '|'))).then_some(Operator::End);
        }
        if self.eat("&>>") || self.eat("&>") || self.eat("<") {
            return self.discards().then_some(Operator::Redirection);
        }
        let numbered = matches!(self.rest().as_bytes(), [b'1' | b'2', b'>', ..]);
        self.at += usize::from(numbered);
        if self.eat(">>") {
            return self.discards().then_some(Operator::Redirection);
        }
        if self.eat(">") {
            let duplicates = self.eat("&1") || self.eat("&2");
            let is_fine = if duplicates { self.is_at_delimiter() } else { self.discards() };
            return is_fine.then_some(Operator::Redirection);
        }
        (!matches!(self.peek(), Some('&' | '(' | ')'))).then_some(Operator::None)
    }

    /// Returns true if the file of a redirection is `/dev/null`.
    fn discards(&mut self) -> bool {
        self.skip_blanks();
        self.eat("/dev/null") && self.is_at_delimiter()
    }

    fn is_at_delimiter(&self) -> bool {
        matches!(self.peek(), None | Some(' ' | '\t' | '\n' | ';' | '|' | '&'))
    }

    fn word(&mut self) -> Option<Word> {
        let mut word = Word { start: self.at, ..Word::default() };
        while !self.is_at_delimiter() {
            match self.next()? {
                '\'' => self.single_quoted(&mut word.text)?,
                '"' => self.double_quoted(&mut word.text)?,
                '\\' => word.text.push(self.next().filter(|escaped| *escaped != '\n')?),
                '$' | '`' | '<' | '>' | '(' | ')' => return None,
                '!' if word.start + 1 == self.at => return None,
                character if !character.is_ascii() => return None,
                character => {
                    if matches!(character, '*' | '?' | '[') && word.wildcard.is_none() {
                        word.wildcard = Some(word.text.len());
                    }
                    word.tilde |= character == '~' && word.start + 1 == self.at;
                    word.brace |= matches!(character, '{' | '}');
                    word.text.push(character);
                }
            }
        }
        // Shells read `a&>x` as `a` and a redirection, or as `a&` and one.
        if self.rest().starts_with("&>") {
            return None;
        }
        let lists = word.brace && (word.text.contains(',') || word.text.contains(".."));
        (!lists).then_some(word)
    }

    fn single_quoted(&mut self, text: &mut String) -> Option<()> {
        let inside = self.rest().split_once('\'')?.0;
        text.push_str(inside);
        self.at += inside.len() + 1;
        Some(())
    }

    fn double_quoted(&mut self, text: &mut String) -> Option<()> {
        loop {
            match self.next()? {
                '"' => return Some(()),
                '$' | '`' => return None,
                '\\' => match self.peek()? {
                    '\n' => return None,
                    '"' | '\\' | '$' | '`' => text.extend(self.next()),
                    _ => text.push('\\'),
                },
                character => text.push(character),
            }
        }
    }
}
