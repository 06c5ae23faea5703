//! Lines as models write them, and attacks that try to bypass the rules.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use testkit::dice::Dice;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Spec};

use super::*;

/// Returns the commands of a line; opaque ones with an exclamation mark.
fn texts(line: &str) -> Vec<String> {
    let shown = |command: Command| format!("{}{}", if command.opaque { "!" } else { "" }, command.text);
    commands(line).into_iter().map(shown).collect()
}

#[test]
fn lines_are_split_into_commands() {
    assert_eq!(texts("touch a && echo done"), ["touch a", "echo done"]);
    assert_eq!(texts("a; b | c || d\ne &&\n f"), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(texts("a & b"), ["!a", "!b"]);
    assert_eq!(texts("(cd x && make)"), ["!cd x", "!make"]);
    assert_eq!(texts("2>/dev/null ls -l >/dev/null 2>&1; pwd"), ["ls -l >/dev/null 2>&1", "pwd"]);
    assert_eq!(texts("echo 'a; b' \"c && d\" e\\;f"), ["echo 'a; b' \"c && d\" e\\;f"]);
    assert_eq!(texts("ls # rm -rf /\npwd"), ["ls", "pwd"]);
    assert_eq!(texts("  "), Vec::<String>::new());
    assert_eq!(texts("# nothing"), Vec::<String>::new());
}

#[test]
fn commands_are_found_wherever_a_shell_would_run_them() {
    for line in [
        "if true; then rm x; fi",
        "for f in a b; do rm x; done",
        "while true; do rm x; done",
        "case a in a) rm x;; esac",
        "f() { rm x; }; f",
        "{ rm x; }",
        "! rm x",
        "time rm x",
        "exec rm x",
        "command rm x",
        "[ -f x ] && rm x",
        "[[ -f x ]] && rm x",
        "diff <(rm x) y",
        "echo ${a:-$(rm x)}",
        "export A=$(rm x)",
        "cat <<EOF\n$(rm x)\nEOF",
        "echo \"a `rm x` b\"",
        "echo $(echo $(rm x))",
    ] {
        assert!(
            texts(line).iter().any(|text| text.trim_start_matches('!') == "rm x"),
            "{line}: {:?}",
            texts(line)
        );
    }
}

#[test]
fn a_here_document_is_not_a_command() {
    assert_eq!(texts("cat <<'EOF'\nrm -rf /\nEOF"), ["!cat <<'EOF'\nrm -rf /\nEOF"]);
}

#[test]
fn a_disguised_name_is_judged_by_its_program() {
    for line in ["r\\m -rf x", "'rm' -rf x", "\"r\"m -rf x", "A=1 rm -rf x", "$'rm' -rf x", "r\\\nm -rf x"] {
        let words = ["rm", "-rf", "x"].map(str::to_owned);
        assert!(commands(line).iter().any(|command| command.words == words), "{line}: {:?}", commands(line));
    }
    assert_eq!(texts("A=1 rm x"), ["!rm x"]);
}

#[test]
fn words_have_no_quotes() {
    let command = &commands("grep -n 'two words' \"a\"b c\\ d '' \"x\\\"y\\n\"")[0];
    assert_eq!(command.words, ["grep", "-n", "two words", "ab", "c d", "", "x\"y\\n"]);
}

#[test]
fn a_line_that_does_more_than_it_shows_is_opaque() {
    for line in [
        "echo $HOME",
        "cat < x",
        "echo x > y",
        "ls &> y",
        "ls >& y",
        "echo 'open",
        "ls \"$x\"",
        "cat <<EOF\nhi\nEOF",
        "cat <<< hi",
        "echo \\",
        "echo $(rm x",
        "echo `rm x",
        "$'\\x72m' x",
        "$x y",
        "PATH=. ls",
        "PATH=.",
        "export PATH=.",
        "a | b > c",
        "{ a; b; } > c",
        "> c",
        "exec 3<>/dev/tcp/a/1",
        "ls {a,b}",
        "ls a{1..3}",
        "ls &",
        "a &> 42",
        "a >& 42",
        "a > 42",
        "a 3>/dev/null",
        "a >| /dev/null",
        "a <> /dev/null",
        "a>/dev/null",
        "[ -f x ]",
        "[[ -v x ]]",
        "(( 1 ))",
        "let x=1",
        "test -v 'a[0]'",
        "printf -v 'a[$(x)]' y",
        "unset 'a[$(x)]'",
        "read 'a[$(x)]'",
        "eval ls",
        "trap 'rm x' EXIT",
        "hash -p ./x ls",
        "f() { ls; }",
        "! ls",
        "time -p",
        "~/x",
        "/bin/l?",
        "echo a\\\n#; b",
        "ls \\\n-l",
        "ls \"a\\\nb\"",
        "ls\r",
        "ls \u{b}x",
        "ls\u{a0}x",
        "ls caf\u{e9}",
        "echo '\u{202e}x'",
        "echo \"\u{e9}\\\" x\"",
        "echo \0",
        "ls ;; pwd",
        "ls &&",
        "&& ls",
        "ls | & pwd",
        "ls |& pwd",
        "if true; then ls; fi",
        "while ls; do pwd; done",
        "select x in a; do ls; done",
        "coproc ls",
        "''",
        "a=(x)",
        "a[0]=x ls",
        "# \u{202e}",
        "#\r",
        "\\\n",
        "\u{b}",
    ] {
        assert!(commands(line).iter().any(|command| command.opaque), "{line}: {:?}", commands(line));
    }
    for line in [
        "echo '$HOME `x` > y'",
        "ls 2>/dev/null",
        "make >/dev/null 2>&1",
        "ls > /dev/null; pwd",
        "ls *.rs a/[ab].c",
        "git show HEAD@{1} stash@{0}",
        "find . -exec grep x {} +",
        "git show HEAD^ HEAD~2 :/fix",
        "echo \"it works!\" 'd\u{e9}j\u{e0} vu'",
        "echo \"a \\\"b\\\" \\$5\" 100%",
        "ls </dev/null &>/dev/null",
        "echo 'two\nlines'",
        "# a comment; $x\nls # another",
        "ls &&\n\n pwd",
    ] {
        assert!(commands(line).iter().all(|command| !command.opaque), "{line}: {:?}", commands(line));
    }
    assert!(commands("echo x >/dev/nullified")[0].opaque);
}

#[test]
fn always_names_the_program_and_its_subcommand() {
    for (line, always) in [
        ("touch /else/x", "touch *"),
        ("git commit -m x", "git commit *"),
        ("git remote add a b", "git remote add *"),
        ("npm run build -- -x", "npm run build *"),
        ("make", "make *"),
        ("time make all", "make all *"),
        ("echo $x", "echo $x"),
        ("git -C /else status", "git -C /else status"),
        ("python -m pytest -q", "python -m pytest *"),
        ("find . -name '*.rs'", "find . -name '*.rs'"),
        ("timeout 5 pwd", "timeout 5 pwd"),
        ("env true", "env true"),
        ("nice true", "nice true"),
        ("awk 'BEGIN{}'", "awk 'BEGIN{}'"),
        ("sed -n 1p a.txt", "sed -n 1p a.txt"),
        ("sh x.sh", "sh x.sh"),
        ("'./my script' x", "'./my script' x"),
    ] {
        assert_eq!(commands(line)[0].always(), always, "{line}");
    }
}

#[test]
fn places_that_could_be_outside_are_found() {
    let places = |line: &str| {
        let commands = commands(line);
        commands
            .iter()
            .flat_map(Command::path_arguments)
            .map(|argument| argument.path.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(places("cp a/b ../x /etc/y --out=/o -r"), ["a/b", "../x", "/etc/y", "/o"]);
    assert_eq!(
        places("make a/b ../x ~/z $HOME/w ..a a/../b --out=/o"),
        ["../x", "~/z", "$HOME/w", "a/../b", "/o"]
    );
    assert_eq!(places("make > /etc/x 2>/dev/null"), ["/etc/x"]);
    assert_eq!(places("{ a; } < ../x"), ["../x"]);
    assert!(commands("cd /else")[0].changes_directory());
}

#[test]
fn deep_and_long_lines_are_survived() {
    let deep = format!("{}x{}", "$(".repeat(5000), ")".repeat(5000));
    assert!(commands(&deep).iter().any(|command| command.opaque));
    let long = "a;".repeat(MAX_LINE);
    assert_eq!(commands(&long).len(), 1);
    assert!(commands(&long)[0].opaque);
}

/// Fragments of lines that terminate in any combination: no loops, no functions, no existing programs.
const FRAGMENTS: [&str; 44] = [
    "zap",
    "zip x",
    "nop 'a b'",
    "\"q\"",
    "'q'",
    "A=1",
    "A=$(zap)",
    " ",
    " ",
    " ",
    " ",
    ";",
    "; ",
    " && ",
    " || ",
    " | ",
    " & ",
    "\n",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    "`",
    "\"",
    "'",
    "\\",
    "#",
    " # ",
    "if ",
    "; then ",
    "; fi",
    "! ",
    "<(",
    " <<E\n",
    "\nE\n",
    "case x in x) ",
    ";; esac",
    "command ",
    "[[ -f x ]]",
    "$((1",
    "))",
    "${x:-",
    "}",
];

fn line(seed: u64) -> String {
    let mut dice = Dice::new(seed);
    let count = 1 + dice.roll(9);
    let fragment = |roll: u64| FRAGMENTS[usize::try_from(roll).unwrap()];
    (0..count).map(|_| fragment(dice.roll(FRAGMENTS.len() as u64))).collect()
}

/// Returns the names of the commands that bash tries to run.
async fn tried(directory: &Path, line: &str) -> Vec<String> {
    let log = directory.join("log");
    let _ = std::fs::remove_file(&log);
    // On a line of its own, so that it takes effect before the rest is read.
    let note = "PATH=/nowhere; command_not_found_handle() { builtin echo \"$1\" >>log; }";
    let spec = Spec::shell(&format!("{note}\n{line}"), directory, Duration::from_secs(20));
    process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_comment_after_a_backslash_is_none() {
    assert_eq!(texts("ls \\ # ; rm x"), ["ls \\ #", "rm x"]);
    assert_eq!(texts("ls \\\n# ; rm x"), ["!ls"]);
    assert_eq!(texts("ls # ; rm x"), ["ls"]);
}

#[tokio::test]
async fn every_command_that_bash_runs_is_found_or_makes_the_line_opaque() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mut judged = 0;
    for seed in 0..2_000 {
        let line = line(seed);
        let found = commands(&line);
        if found.iter().any(|command| command.opaque) {
            continue;
        }
        let names: Vec<&str> = found.iter().map(Command::name).collect();
        for name in tried(directory.path(), &line).await {
            judged += 1;
            assert!(names.contains(&name.as_str()), "seed {seed}: bash runs {name} in {line:?}: {found:?}");
        }
    }
    assert!(judged > 50, "only {judged} commands were run");
}

#[test]
fn no_line_panics_or_yields_longer_commands() {
    for seed in 0..20_000 {
        let line = line(seed);
        for command in commands(&line) {
            assert!(command.text.len() <= line.len(), "seed {seed}: {command:?} in {line:?}");
        }
    }
}
