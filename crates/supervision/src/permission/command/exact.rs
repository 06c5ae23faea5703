//! Programs whose arguments name another program or contain code.
//!
//! A reply of `always` to `timeout 5 make` cannot mean "`timeout` with any arguments": that would allow every
//! command. For these programs it means the same command again.

/// Programs that run their arguments as programs or code, by their names without version numbers.
const RUNNERS: &[&str] = &[
    ".",
    "R",
    "Rscript",
    "ack",
    "ag",
    "ash",
    "at",
    "awk",
    "bash",
    "bat",
    "batch",
    "builtin",
    "bunx",
    "busybox",
    "bwrap",
    "cc",
    "chroot",
    "chrt",
    "clang",
    "clang++",
    "command",
    "crontab",
    "csh",
    "dash",
    "dbus-run-session",
    "direnv",
    "doas",
    "dtach",
    "ed",
    "emacs",
    "entr",
    "env",
    "ex",
    "exec",
    "expect",
    "fd",
    "fdfind",
    "find",
    "firejail",
    "fish",
    "flock",
    "g++",
    "gawk",
    "gcc",
    "gdb",
    "getopts",
    "ghci",
    "gtimeout",
    "install",
    "ionice",
    "irb",
    "java",
    "jshell",
    "julia",
    "ksh",
    "ld",
    "less",
    "linux32",
    "linux64",
    "lldb",
    "ltrace",
    "lua",
    "luajit",
    "man",
    "mawk",
    "mise",
    "mksh",
    "more",
    "mysql",
    "nawk",
    "nc",
    "ncat",
    "newgrp",
    "nice",
    "nix",
    "nix-shell",
    "node",
    "nodejs",
    "nohup",
    "npx",
    "nsenter",
    "nvim",
    "osascript",
    "parallel",
    "perf",
    "perl",
    "php",
    "pipx",
    "pkexec",
    "pnpx",
    "powershell",
    "printf",
    "psql",
    "pwsh",
    "pypy",
    "rbash",
    "read",
    "rg",
    "rsync",
    "ruby",
    "runghc",
    "runuser",
    "scala",
    "scp",
    "screen",
    "script",
    "sed",
    "setarch",
    "setsid",
    "sftp",
    "sg",
    "sh",
    "socat",
    "sort",
    "source",
    "split",
    "sqlite",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "tar",
    "taskset",
    "tclsh",
    "tcsh",
    "test",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "unshare",
    "uvx",
    "valgrind",
    "vi",
    "view",
    "vim",
    "watch",
    "wget",
    "wish",
    "xargs",
    "xvfb-run",
    "zsh",
];

/// Subcommands that run the rest of their arguments, by program.
const RUNNING: [(&str, &[&str]); 16] = [
    ("asdf", &["exec"]),
    ("bun", &["exec", "x", "repl"]),
    ("bundle", &["exec"]),
    ("cargo", &["rustc"]),
    ("conda", &["run"]),
    ("docker", &["exec", "run", "create", "buildx", "compose", "container"]),
    ("dotnet", &["exec", "script"]),
    ("go", &["run", "generate", "tool"]),
    ("gh", &["alias", "extension"]),
    ("kubectl", &["exec", "run", "debug"]),
    ("npm", &["exec", "x", "explore", "init", "create"]),
    ("pnpm", &["exec", "dlx", "create"]),
    ("podman", &["exec", "run", "create", "compose", "container"]),
    ("poetry", &["run"]),
    ("uv", &["run", "tool", "x"]),
    ("yarn", &["exec", "dlx", "create", "node"]),
];

/// Subcommands of git that neither run programs named by their options nor write to files named by them.
const HARMLESS_OPTIONS: [&str; 18] = [
    "add",
    "blame",
    "branch",
    "checkout",
    "cherry-pick",
    "commit",
    "merge",
    "mv",
    "remote",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "status",
    "switch",
    "tag",
    "worktree",
];

/// Python modules that a project runs on itself.
const MODULES: [&str; 6] = ["black", "flake8", "mypy", "pytest", "ruff", "unittest"];

/// Returns true if `always` may allow only exactly the same command.
pub(super) fn only(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    let name = program(words.next().unwrap_or_default());
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match name {
        "git" => !HARMLESS_OPTIONS.contains(&first) || (first == "stash" && second == "show"),
        "python" | "pypy" => !(first == "-m" && MODULES.contains(&second)),
        "deno" => first != "task",
        _ => {
            let running = RUNNING.iter().find(|(program, _)| *program == name);
            RUNNERS.contains(&name) || running.is_some_and(|(_, subcommands)| subcommands.contains(&first))
        }
    }
}

/// Returns a program's name without its directory and version: `python` for `/usr/bin/python3.12`.
fn program(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word);
    let bare =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || matches!(character, '.' | '-'));
    if bare.is_empty() { name } else { bare }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_and_interpreters_are_known_by_every_name() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in [
            "find . -name zz",
            "timeout 5 pwd",
            "env true",
            "/usr/bin/env true",
            "nice true",
            "awk BEGIN{}",
            "sed -n 1p a.txt",
            "sh x.sh",
            "python3.12 x.py",
            "python3 -m timeit x",
            "perl5.36 -e 1",
            "node x.js",
            "git fetch origin",
            "git -C x status",
            "git rebase main",
            "git log --output=x",
            "git stash show -p",
            "docker run x",
            "kubectl exec x",
            "npx tsc",
            "uv run x",
            "go run x",
            "xargs rm",
            "sqlite3 x",
            ". x",
        ] {
            assert!(only(&words(line)), "{line}");
        }
        for line in [
            "make all",
            "cargo test",
            "npm run build",
            "git commit -m x",
            "git stash pop",
            "python -m pytest x",
            "python3 -m mypy .",
            "docker build .",
            "touch x",
            "go test ./...",
            "deno task x",
            "grep x y",
        ] {
            assert!(!only(&words(line)), "{line}");
        }
    }
}
