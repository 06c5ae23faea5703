//! The gate's decisions about command lines.

mod attacks;
mod fuzz;
mod generator;
mod hostile_project;

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::permission::Permissions;

/// Returns the verdict on a line as [`Gate::command`] reaches it for the project's own directory.
fn verdict(permissions: &Permissions, root: &Root, line: &str) -> Verdict {
    let commands = commands(line);
    let check = command_check(line, &commands);
    let outside = all_outside(root, root.directory(), &commands);
    match permissions.judge(&check) {
        Verdict::Allowed | Verdict::Confined
            if !outside.is_empty()
                && permissions.judge(&external_directory_check(&outside)) == Verdict::Ask =>
        {
            Verdict::Ask
        }
        Verdict::Allowed if check.patterns.is_empty() => Verdict::Confined,
        verdict => verdict,
    }
}

#[test]
fn a_wish_names_every_command_of_the_line() {
    let line = "cd src && touch /else/x && echo approved && touch y";
    let check = command_check(line, &commands(line));
    let patterns: Vec<&str> = check.patterns.iter().map(|pattern| pattern.text.as_str()).collect();
    assert_eq!(patterns, ["touch /else/x", "echo approved", "touch y"]);
    assert_eq!(check.always, ["touch *", "echo *"]);
    assert_eq!(Value::Object(check.metadata), json!({ "command": line }));
}

#[test]
fn outside_paths_are_distinguished_from_words_that_resemble_them() {
    let outer = TempDir::new().unwrap();
    let top = outer.path().canonicalize().unwrap();
    let project = top.join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::write(top.join("secret"), "").unwrap();
    std::os::unix::fs::symlink(top.join("secret"), project.join("link")).unwrap();
    let root = Root::new(&project).unwrap();
    let asked = |line: &str, directory: &str| {
        let commands = commands(line);
        let found = all_outside(&root, &project.join(directory), &commands).into_iter();
        found.map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let outer = top.to_str().unwrap();
    assert_eq!(asked("cat ../secret", ""), [outer]);
    assert_eq!(asked("cat link", ""), [outer]);
    assert_eq!(asked("cat ../link src", "src"), [outer]);
    assert_eq!(asked("make ../README", "src"), Vec::<String>::new());
    assert_eq!(asked("make ../README", ""), [outer]);
    assert_eq!(asked("touch new && ls src /dev/null", ""), Vec::<String>::new());
    assert_eq!(asked("awk '/foo/ { print }' src", ""), Vec::<String>::new());
    assert_eq!(asked("mkdir -p /foo/bar", ""), ["/foo"]);
    assert_eq!(asked("jq /foo/bar x", ""), Vec::<String>::new());
    assert_eq!(asked("jq . /etc/hostname", ""), ["/etc"]);
    assert_eq!(asked("ls ~ ~/a/b $HOME/c", ""), ["~", "~/a", "$HOME"]);
    assert_eq!(asked("echo x > /etc/y", ""), ["/etc"]);
    std::os::unix::fs::symlink(&top, project.join("src/up")).unwrap();
    assert_eq!(asked("cd src && ls up", ""), [outer]);
    assert_eq!(asked("cd nowhere || cd src; ls up", ""), [outer]);
    assert_eq!(asked("cd src; cd up && git log", ""), [outer]);
    assert_eq!(asked("cd src && ls", ""), Vec::<String>::new());
}

#[test]
fn a_line_that_visits_many_directories_asks() {
    let project = TempDir::new().unwrap();
    let top = project.path().canonicalize().unwrap();
    let root = Root::new(&top).unwrap();
    let visits = |count: usize| {
        let directories: Vec<String> = (0..count).map(|index| format!("d{index}")).collect();
        for directory in &directories {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        let line = format!("cd {}", directories.join("; cd "));
        all_outside(&root, &top, &commands(&line)).len()
    };
    assert_eq!(visits(MAX_DIRECTORIES - 1), 0);
    assert_eq!(visits(MAX_DIRECTORIES), 1);
}
