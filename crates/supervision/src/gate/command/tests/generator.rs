//! Generates command lines from a seed: harmless lines, attacks and fragments of both, recombined and damaged.

use testkit::dice::Dice;

/// The most mutations of one line.
const MOST_MUTATIONS: u64 = 3;

/// The longest line; recombination would make longer ones without limit.
const LONGEST: usize = 400;

/// Commands that the default rules call harmless, each with words that suit it, and some that do not.
const COMMANDS: [(&str, &str); 16] = [
    ("echo", r"-n -e -E x a=b * 'a' \> \$x '$(pwd)' #x a# ! .x"),
    ("ls", r"-la -R --color --color=always -I -w --hide a src * -1 --sort=size -- a\ b"),
    ("wc", "-l -c -- a src/b --total=never x/y/* - --bytes --files0-from=a"),
    ("pwd", ""),
    ("uname", "-a -s --all --machine"),
    ("which", "-a ls git touch"),
    ("whoami", ""),
    ("true", ""),
    ("false", ""),
    ("sleep", "0 0.0 0s"),
    ("cd", r"src bare nested sub x/y a\ b . -P -- -"),
    ("git status", "-s -sb -v -vv -uall --porcelain=v2 --ignored -- a -z --column --show-stash --renames *"),
    ("git branch", "-a -r -v -vv --list --show-current m* --no-color new"),
    ("git log", LOOKING),
    ("git diff", LOOKING),
    ("git show", LOOKING),
];

const LOOKING: &str = "-p -1 -n 1 --stat --raw HEAD HEAD~1 main other v1 'stash@{0}' -- a src sub --format=%H --format %G? \
    --format=%G? --all -S x -Gx -L1,1:a --submodule=diff --submodule --cached --no-ext-diff -M -C -B -U1 --color-words \
    --word-diff --author --since --grep=x --follow -g --graph --oneline --name-only --check --diff-filter=M HEAD:a -c \
    --cc --notes --date=format:%x --encoding=x -z --quiet --line-prefix=x signed right -m --diff-merges=on \
    --diff-merges=first-parent --find-renames --cherry --reflog --full-history --source --binary --full-index \
    --pickaxe-all --merges --boundary * --diff-merges remerge --output =pwned --output=pwned \
    --output-indicator-new=x -O --no-index --textconv --ext-diff";

/// Words and parts of words that make a line do more, and characters that may hide them.
const FRAGMENTS: [&str; 96] = [
    " ",
    " ",
    "  ",
    "\t",
    "\n",
    "\\\n",
    "\\",
    "\\\\",
    "'",
    "''",
    "\"",
    "\"\"",
    "'\\''",
    "`",
    "$",
    "$(",
    ")",
    "(",
    "${",
    "}",
    "{",
    ",",
    "..",
    "[",
    "]",
    "[[",
    "]]",
    "((",
    "))",
    "$((",
    "<(",
    ">(",
    ">",
    ">>",
    ">|",
    "<",
    "<>",
    "<<",
    "<<<",
    "&>",
    "&>>",
    ">&",
    "2>&1",
    "2>",
    "1>&2",
    "{fd}>",
    "/dev/null",
    ">/dev/null",
    "2>/dev/null ",
    "42",
    "&",
    "&&",
    "|",
    "|&",
    "||",
    ";",
    ";;",
    ";&",
    "#",
    " #",
    "!",
    "*",
    "?",
    "[-]",
    "~",
    "=",
    "-",
    "--",
    "--output=pwned",
    "{--output=pwned,-q}",
    "touch pwned",
    "; touch pwned",
    "\ntouch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "a[$(touch pwned)]",
    "A=1 ",
    "eval ",
    "command ",
    "builtin ",
    "exec ",
    "time ",
    "nohup ",
    "test -v ",
    "let ",
    "printf -v ",
    "trap ",
    "alias ",
    "()",
    "{ ",
    "; }",
    "\r",
    "\u{b}",
    "\u{a0}",
    "E\n",
    ">/dev/tcp/127.0.0.1/PORT",
];

const JOINTS: [&str; 8] = [" && ", " || ", " | ", "; ", "\n", ";", "|", " &&\n"];

pub(super) struct Generator<'c> {
    dice: Dice,
    corpus: &'c [String],
}

impl<'c> Generator<'c> {
    pub(super) fn new(seed: u64, corpus: &'c [String]) -> Self {
        Self { dice: Dice::new(seed), corpus }
    }

    pub(super) fn line(&mut self) -> String {
        let mut line = if self.one_in(4) { self.known() } else { self.sentence() };
        // Every other line is kept or mutated once, so that it is likely to pass and to run.
        if self.one_in(2) {
            return if self.one_in(2) { line } else { self.mutated(&line) };
        }
        for _ in 0..self.dice.roll(MOST_MUTATIONS + 1) {
            line = self.mutated(&line);
        }
        line.chars().take(LONGEST).collect()
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.dice.roll(sides) == 0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.dice.roll(end as u64)).unwrap()
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    fn known(&mut self) -> String {
        self.corpus[self.below(self.corpus.len())].clone()
    }

    /// Returns one to three harmless commands with words that suit them.
    fn sentence(&mut self) -> String {
        let mut line = self.command();
        for _ in 0..self.dice.roll(3) {
            line.push_str(self.pick(&JOINTS));
            line.push_str(&self.command());
        }
        line
    }

    fn command(&mut self) -> String {
        let (name, words) = COMMANDS[self.below(COMMANDS.len())];
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut line = name.to_owned();
        for _ in 0..self.dice.roll(4).min(words.len() as u64) {
            line.push(' ');
            let word = self.pick(&words);
            let word = if self.one_in(6) { self.disguised(word) } else { word.to_owned() };
            line.push_str(&word);
        }
        line
    }

    /// Returns a word in another spelling.
    fn disguised(&mut self, word: &str) -> String {
        let middle = self.boundary(word);
        let (start, end) = word.split_at(middle);
        match self.dice.roll(11) {
            0 => format!("'{word}'"),
            1 => format!("\"{word}\""),
            2 => format!("\\{word}"),
            3 => format!("{start}''{end}"),
            4 => format!("{start}\\{end}"),
            5 => format!("{start}\\\n{end}"),
            6 => format!("$'{word}'"),
            7 => format!("{{{start},{end}}}"),
            8 => format!("{start}*"),
            9 => format!("{start}?{end}"),
            _ => start.to_owned(),
        }
    }

    /// Returns a position between two characters, or one of the ends.
    fn boundary(&mut self, line: &str) -> usize {
        let at = self.below(line.chars().count() + 1);
        line.char_indices().nth(at).map_or(line.len(), |(index, _)| index)
    }

    fn mutated(&mut self, line: &str) -> String {
        let (one, two) = (self.boundary(line), self.boundary(line));
        let (from, to) = (one.min(two), one.max(two));
        let (start, end) = (&line[..from], &line[from..]);
        match self.dice.roll(9) {
            // The most productive mutation: one fragment at a random position.
            0..=3 => format!("{start}{}{end}", self.pick(&FRAGMENTS)),
            4 => {
                let rest: String = end.chars().skip(1).collect();
                format!("{start}{rest}")
            }
            5 => format!("{start}{}", &line[to..]),
            6 => {
                let other = self.known();
                let cut = self.boundary(&other);
                format!("{start}{}", &other[cut..])
            }
            7 => format!("{line}{}{}", self.pick(&JOINTS), self.known()),
            _ => format!("{start}{}{}", self.disguised(&line[from..to]), &line[to..]),
        }
    }
}
