//! Searches in real trees.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;

use super::*;

/// Creates a tree with these files, each a minute newer than the previous one.
fn tree(files: &[(&str, &str)]) -> (TempDir, SearchScope) {
    let directory = TempDir::new().unwrap();
    let top = directory.path().canonicalize().unwrap();
    let start = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 40);
    for (at, (name, content)) in files.iter().enumerate() {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let time = start + Duration::from_secs(60 * at as u64);
        fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    }
    (directory, SearchScope::new(top))
}

fn names(found: &Found, scope: &SearchScope) -> Vec<String> {
    let relative = |path: &PathBuf| path.strip_prefix(&scope.path).unwrap().to_string_lossy().into_owned();
    found.paths.iter().map(relative).collect()
}

fn lines(matches: &Matches, scope: &SearchScope) -> Vec<String> {
    let shown = |file: &Matched| {
        let path = file.path.strip_prefix(&scope.path).unwrap().to_string_lossy().into_owned();
        file.lines.iter().map(move |line| format!("{path}:{}:{}", line.number, line.text)).collect::<Vec<_>>()
    };
    matches.files.iter().flat_map(shown).collect()
}

#[test]
fn files_are_found_newest_first_without_ignored_ones() {
    let (_directory, scope) = tree(&[
        (".gitignore", "target/\n*.log\n"),
        ("a.rs", ""),
        ("src/b.rs", ""),
        (".config/c.rs", ""),
        ("target/d.rs", ""),
        (".git/e.rs", ""),
        ("src/f.log", ""),
        ("src/.gitignore", "g.rs\n"),
        ("src/g.rs", ""),
    ]);
    let found = glob("*.rs", &scope).unwrap();
    assert_eq!(names(&found, &scope), [".config/c.rs", "src/b.rs", "a.rs"]);
    assert_eq!((found.total, found.unfinished), (3, false));
    assert_eq!(names(&glob("*.log", &scope).unwrap(), &scope), Vec::<String>::new());
}

#[test]
fn an_ignored_directory_that_is_named_is_searched() {
    let (_directory, mut scope) = tree(&[(".gitignore", "target/\n"), ("target/d.rs", "x\n")]);
    scope.path = scope.path.join("target");
    assert_eq!(names(&glob("*.rs", &scope).unwrap(), &scope), ["d.rs"]);
}

#[test]
fn of_many_files_the_newest_hundred_are_shown() {
    let all: Vec<String> = (0..150).map(|number| format!("{number:03}.txt")).collect();
    let files: Vec<(&str, &str)> = all.iter().map(|name| (name.as_str(), "x\n")).collect();
    let (_directory, scope) = tree(&files);
    let found = glob("*.txt", &scope).unwrap();
    assert_eq!((found.paths.len(), found.total), (MAX_RESULTS, 150));
    let shown = names(&found, &scope);
    assert_eq!((shown[0].as_str(), shown[99].as_str()), ("149.txt", "050.txt"));
    let matches = grep("x", None, &scope).unwrap();
    assert_eq!((lines(&matches, &scope).len(), matches.total), (MAX_RESULTS, 150));
    assert_eq!(lines(&matches, &scope)[0], "149.txt:1:x");
}

#[test]
fn lines_are_found_in_text_files_only() {
    let (_directory, scope) = tree(&[
        ("a.txt", "one\ntwo\nthree two\n"),
        ("b.md", "two\r\n"),
        ("c.bin", "two\0two\n"),
        ("d.bin", &format!("two\n{}\0", "x".repeat(200_000))),
        ("e.txt", "TWO\n"),
    ]);
    let matches = grep("tw[o]$", None, &scope).unwrap();
    assert_eq!(lines(&matches, &scope), ["b.md:1:two", "a.txt:2:two", "a.txt:3:three two"]);
    let matches = grep("(?i)two", Some("*.txt"), &scope).unwrap();
    assert_eq!(lines(&matches, &scope), ["e.txt:1:TWO", "a.txt:2:two", "a.txt:3:three two"]);
    assert_eq!(lines(&grep("two", Some("!*.txt"), &scope).unwrap(), &scope), ["b.md:1:two"]);
}

#[test]
fn a_single_file_can_be_searched() {
    let (_directory, mut scope) = tree(&[("a.txt", "one\ntwo\n"), ("b.txt", "two\n")]);
    let top = scope.path.clone();
    scope.path = top.join("a.txt");
    let matches = grep("two", Some("*.md"), &scope).unwrap();
    scope.path = top;
    assert_eq!(lines(&matches, &scope), ["a.txt:2:two"]);
}

#[test]
fn results_of_one_file_are_truncated() {
    let (_directory, scope) = tree(&[("old.txt", "x\n"), ("a.txt", &"x\n".repeat(1000))]);
    let matches = grep("x", None, &scope).unwrap();
    assert_eq!((matches.total, matches.files.len(), matches.files[0].lines.len()), (1001, 1, 100));
}

#[test]
fn excerpts_of_long_lines_contain_the_match() {
    let long = format!("{}needle{}", "é".repeat(9000), "y".repeat(9000));
    let (_directory, scope) = tree(&[("a.js", &long)]);
    let matches = grep("needle", None, &scope).unwrap();
    let text = &matches.files[0].lines[0].text;
    assert_eq!(text.chars().count(), MAX_EXCERPT + 6);
    assert!(text.starts_with("...é") && text.contains("éneedley") && text.ends_with("y..."), "{text}");
    let early = &grep("é", None, &scope).unwrap().files[0].lines[0].text;
    assert!(early.starts_with("éé") && early.ends_with("é..."), "{early}");
}

#[test]
fn files_that_must_not_be_shown_are_counted_and_not_read() {
    let (_directory, mut scope) = tree(&[(".env", "KEY=secret\n"), ("a.txt", "no secret\n")]);
    scope.withheld = Arc::new(|path| path.ends_with(".env"));
    let matches = grep("secret", None, &scope).unwrap();
    assert_eq!(lines(&matches, &scope), ["a.txt:1:no secret"]);
    assert_eq!((matches.total, matches.withheld), (1, 1));
}

#[test]
fn links_are_not_followed() {
    let (directory, scope) = tree(&[("in/a.txt", "two\n")]);
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("b.txt"), "two\n").unwrap();
    std::os::unix::fs::symlink(outside.path(), directory.path().join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("b.txt"), directory.path().join("c.txt")).unwrap();
    assert_eq!(names(&glob("*.txt", &scope).unwrap(), &scope), ["in/a.txt"]);
    assert_eq!(grep("two", None, &scope).unwrap().total, 1);
}

#[test]
fn an_invalid_search_is_an_error() {
    let (_directory, scope) = tree(&[("a.txt", "")]);
    assert!(matches!(grep("(", None, &scope), Err(Error::Pattern(_))));
    assert!(matches!(grep("a\\nb", None, &scope), Err(Error::Pattern(_))));
    assert!(matches!(grep("a", None, &SearchScope::new(scope.path.join("no"))), Err(Error::NotFound(_))));
    assert!(matches!(glob("a", &SearchScope::new(scope.path.join("no"))), Err(Error::NotFound(_))));
    assert!(matches!(glob("a", &SearchScope::new(scope.path.join("a.txt"))), Err(Error::NotDirectory(_))));
}

#[test]
fn cancelled_and_late_searches_report_that_they_are_incomplete() {
    let (_directory, mut scope) = tree(&[("a.txt", "x\n")]);
    scope.cancel.cancel();
    assert!(glob("*", &scope).unwrap().unfinished);
    assert!(grep("x", None, &scope).unwrap().unfinished);
    scope.cancel = CancellationToken::new();
    scope.deadline = Duration::ZERO;
    assert!(grep("x", None, &scope).unwrap().unfinished);
}

#[test]
fn one_huge_file_does_not_block_a_search() {
    let (directory, mut scope) = tree(&[]);
    fs::write(directory.path().join("huge"), "yyyyyyy\n".repeat(8_000_000)).unwrap();
    scope.deadline = Duration::from_millis(20);
    let start = Instant::now();
    assert!(grep("y+x", None, &scope).unwrap().unfinished);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn closed_paths_are_neither_listed_nor_searched() {
    let (_directory, mut scope) =
        tree(&[("a.json", "key\n"), ("data/auth.json", "key\n"), ("data/open/b.json", "key\n")]);
    scope.closed = Closed::new([scope.path.join("data")], []);
    assert_eq!(names(&glob("*.json", &scope).unwrap(), &scope), ["a.json"]);
    assert_eq!(lines(&grep("key", None, &scope).unwrap(), &scope), ["a.json:1:key"]);
    let found = super::names("json", Wanted { kind: None, limit: 10 }, &scope).unwrap();
    assert_eq!(found.into_iter().map(|name| name.path).collect::<Vec<_>>(), ["a.json"]);
}
