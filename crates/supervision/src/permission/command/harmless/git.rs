//! Read-only subcommands of git.

use super::{Grammar, Word};
use crate::permission::matches;

const STATUS: Grammar = Grammar {
    flags: "sbvz",
    exact: &["-u", "-uno", "-unormal", "-uall"],
    long: &[
        "short",
        "branch",
        "show-stash",
        "porcelain",
        "long",
        "verbose",
        "untracked-files",
        "ignore-submodules",
        "ignored",
        "column",
        "no-column",
        "ahead-behind",
        "no-ahead-behind",
        "renames",
        "no-renames",
        "find-renames",
        "null",
    ],
    ..Grammar::NONE
};

/// `--list` keeps `git branch NAME` from creating a branch.
const BRANCH: Grammar = Grammar {
    flags: "arv",
    exact: &["--list", "-l"],
    long: &["all", "remotes", "verbose", "no-color", "color", "show-current"],
    ..Grammar::NONE
};

/// `diff`, `log` and `show` share their long options. Missing on purpose: `--output` and `-O`, which name files,
/// `--no-index`, which reads any file, `--ext-diff`, `--textconv` and `--show-signature`, which start programs, and
/// `--remerge-diff` with its other spellings, which writes objects and starts merge drivers.
const DIFF: Grammar = Grammar {
    flags: "puszabwWRcD",
    valued: "SGIUl",
    numbered: "MCB",
    numbers: true,
    exact: DIFF_MERGES,
    long: HISTORY_FLAGS,
    long_valued: HISTORY_VALUES,
    operand: is_no_secret,
    ..Grammar::NONE
};

const LOG: Grammar = Grammar { flags: "puszabwWRcDmtrgiEFP", valued: "SGLIUln", ..DIFF };

const DIFF_MERGES: &[&str] = &[
    "--diff-merges=off",
    "--diff-merges=on",
    "--diff-merges=first-parent",
    "--diff-merges=separate",
    "--diff-merges=combined",
    "--diff-merges=dense-combined",
];

const HISTORY_FLAGS: &[&str] = &[
    // Output of a change.
    "patch",
    "no-patch",
    "raw",
    "patch-with-raw",
    "patch-with-stat",
    "stat",
    "compact-summary",
    "numstat",
    "shortstat",
    "dirstat",
    "cumulative",
    "summary",
    "name-only",
    "name-status",
    "no-color",
    "color",
    "color-words",
    "color-moved",
    "no-color-moved",
    "word-diff",
    "submodule",
    "check",
    "full-index",
    "binary",
    "abbrev",
    "no-abbrev",
    "no-ext-diff",
    "no-textconv",
    "no-prefix",
    "default-prefix",
    "no-relative",
    "relative",
    "exit-code",
    "quiet",
    "text",
    "function-context",
    "pickaxe-all",
    "pickaxe-regex",
    // Comparison of files.
    "indent-heuristic",
    "no-indent-heuristic",
    "minimal",
    "patience",
    "histogram",
    "no-renames",
    "rename-empty",
    "no-rename-empty",
    "find-renames",
    "find-copies",
    "find-copies-harder",
    "break-rewrites",
    "irreversible-delete",
    "ignore-cr-at-eol",
    "ignore-space-at-eol",
    "ignore-space-change",
    "ignore-all-space",
    "ignore-blank-lines",
    "ignore-submodules",
    "cached",
    "staged",
    "merge-base",
    "base",
    "ours",
    "theirs",
    "cc",
    "dd",
    "combined-all-paths",
    "no-diff-merges",
    "ita-invisible-in-index",
    // Selection of commits.
    "all",
    "branches",
    "tags",
    "remotes",
    "merges",
    "no-merges",
    "first-parent",
    "not",
    "all-match",
    "invert-grep",
    "regexp-ignore-case",
    "basic-regexp",
    "extended-regexp",
    "fixed-strings",
    "perl-regexp",
    "walk-reflogs",
    "merge",
    "boundary",
    "left-right",
    "left-only",
    "right-only",
    "cherry",
    "cherry-mark",
    "cherry-pick",
    "follow",
    "full-history",
    "dense",
    "sparse",
    "simplify-merges",
    "simplify-by-decoration",
    "ancestry-path",
    "no-walk",
    "do-walk",
    "reflog",
    // Output of commits.
    "oneline",
    "graph",
    "no-graph",
    "decorate",
    "no-decorate",
    "clear-decorations",
    "source",
    "use-mailmap",
    "mailmap",
    "no-mailmap",
    "abbrev-commit",
    "no-abbrev-commit",
    "relative-date",
    "parents",
    "children",
    "reverse",
    "date-order",
    "author-date-order",
    "topo-order",
    "log-size",
    "notes",
    "no-notes",
    "pretty",
    "expand-tabs",
    "no-expand-tabs",
    "show-pulls",
];

const HISTORY_VALUES: &[&str] = &[
    "unified",
    "color-moved-ws",
    "word-diff-regex",
    "ws-error-highlight",
    "diff-filter",
    "find-object",
    "inter-hunk-context",
    "src-prefix",
    "dst-prefix",
    "line-prefix",
    "diff-algorithm",
    "anchored",
    "skip-to",
    "rotate-to",
    "ignore-matching-lines",
    "stat-width",
    "stat-name-width",
    "stat-graph-width",
    "stat-count",
    "max-count",
    "skip",
    "since",
    "after",
    "until",
    "before",
    "author",
    "committer",
    "grep",
    "min-parents",
    "max-parents",
    "glob",
    "exclude",
    "format",
    "date",
    "encoding",
    "decorate-refs",
    "decorate-refs-exclude",
];

/// Returns true if a git command only reads.
pub(super) fn is_harmless(arguments: &[Word]) -> bool {
    let arguments = match arguments {
        [first, rest @ ..] if first.text == "--no-pager" => rest,
        all => all,
    };
    let Some((subcommand, arguments)) = arguments.split_first() else { return false };
    match subcommand.text.as_str() {
        "status" => STATUS.accepts(arguments),
        "diff" => DIFF.accepts(arguments),
        "log" | "show" => LOG.accepts(arguments),
        "branch" => {
            let lists = |word: &Word| matches!(word.text.as_str(), "--list" | "-l");
            let names = arguments.iter().any(|word| !word.text.starts_with('-'));
            BRANCH.accepts(arguments)
                && (!names || arguments.iter().any(lists))
                && arguments.iter().all(|word| word.text != "--")
        }
        _ => false,
    }
}

/// Returns false if a word names an environment file: these hold keys, and reading them needs a permission.
fn is_no_secret(text: &str) -> bool {
    let name = text.rsplit(['/', ':']).next().unwrap_or_default();
    let asks = ["*.env", "*.env.*"].iter().any(|pattern| matches(pattern, name));
    !asks || matches("*.env.example", name)
}
