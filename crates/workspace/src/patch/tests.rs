//! Patches as models write them, on real files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::files::temporary;

/// Creates a directory with these files.
fn files(files: &[(&str, &str)]) -> TempDir {
    let directory = temporary::directory();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

fn run(directory: &Path, patch: &str) -> Result<Vec<PatchedFile>, Error> {
    let named = parse(&format!("*** Begin Patch\n{patch}\n*** End Patch"))?;
    let operations: Vec<Operation> =
        named.into_iter().map(|operation| operation.map(|path| directory.join(path))).collect();
    let planned = prepare(&operations)?;
    let done = apply(&operations)?;
    assert_eq!(planned, done);
    Ok(done)
}

/// The content of one file after a patch.
fn updated(before: &str, hunks: &str) -> Result<String, Error> {
    let directory = files(&[("a", before)]);
    run(directory.path(), &format!("*** Update File: a\n{hunks}"))?;
    Ok(fs::read_to_string(directory.path().join("a")).unwrap())
}

#[test]
fn files_are_added_changed_moved_and_deleted() {
    let directory = files(&[("old", "one\ntwo\nthree\n"), ("gone", "x\n"), ("a-move", "a\nb\n")]);
    let top = directory.path();
    fs::set_permissions(top.join("a-move"), fs::Permissions::from_mode(0o755)).unwrap();
    let patch = "*** Add File: new/file\n+hello\n+\n+there\n*** Update File: old\n@@\n one\n-two\n+2\n three\n\
        *** Delete File: gone\n*** Update File: a-move\n*** Move to: moved\n@@\n a\n-b\n+c";
    let outcomes = run(top, patch).unwrap();
    assert_eq!(outcomes.len(), 4);
    assert_eq!(fs::read_to_string(top.join("new/file")).unwrap(), "hello\n\nthere\n");
    assert_eq!(fs::read_to_string(top.join("old")).unwrap(), "one\n2\nthree\n");
    assert_eq!(fs::read_to_string(top.join("moved")).unwrap(), "a\nc\n");
    assert!(!top.join("gone").exists() && !top.join("a-move").exists());
    assert_eq!(fs::metadata(top.join("moved")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(outcomes[3].target.as_deref(), Some(top.join("moved").as_path()));
}

#[test]
fn a_file_can_only_move() {
    let directory = files(&[("a", "x\n")]);
    run(directory.path(), "*** Update File: a\n*** Move to: b").unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("b")).unwrap(), "x\n");
    assert!(!directory.path().join("a").exists());
}

#[test]
fn headings_select_one_of_several_places() {
    let text = "class A:\n  def f():\n    pass\nclass B:\n  def f():\n    pass\n";
    let changed = updated(text, "@@ class B:\n@@   def f():\n-    pass\n+    return 1").unwrap();
    assert_eq!(changed, "class A:\n  def f():\n    pass\nclass B:\n  def f():\n    return 1\n");
    let changed = updated(text, "@@ class B:\n   def f():\n-    pass\n+    return 1").unwrap();
    assert!(changed.ends_with("return 1\n"));
    // As in an ordinary diff, where the heading is repeated below.
    let changed = updated(text, "@@ -4,2 +4,2 @@ class B:\n class B:\n-  def f():\n+  def g():").unwrap();
    assert_eq!(changed, "class A:\n  def f():\n    pass\nclass B:\n  def g():\n    pass\n");
}

#[test]
fn several_places_are_changed_in_order() {
    let changed = updated("a\nb\na\nb\n", "@@\n a\n-b\n+1\n@@\n a\n-b\n+2").unwrap();
    assert_eq!(changed, "a\n1\na\n2\n");
}

#[test]
fn spaces_and_typography_are_forgiven_and_unchanged_lines_stay() {
    assert_eq!(updated("  a  \n\tb\nc\n", "@@\n a\n-b\n+x\n c").unwrap(), "  a  \nx\nc\n");
    assert_eq!(
        updated("say \u{201c}a\u{201d} \u{2013} b\nc\n", "@@\n say \"a\" - b\n-c\n+d").unwrap(),
        "say \u{201c}a\u{201d} \u{2013} b\nd\n"
    );
}

#[test]
fn lines_can_be_added_at_the_end_and_below_a_heading() {
    assert_eq!(updated("a\nb\n", "@@\n+c").unwrap(), "a\nb\nc\n");
    assert_eq!(updated("a\nb\n", "@@ a\n+x").unwrap(), "a\nx\nb\n");
    assert_eq!(updated("x\na\nx\na\n", "@@\n x\n-a\n+b\n*** End of File").unwrap(), "x\na\nx\nb\n");
}

#[test]
fn line_ends_stay_as_they_are() {
    assert_eq!(updated("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+1\n+2").unwrap(), "a\r\n1\r\n2\r\nc\r\n");
    assert_eq!(updated("a\nb", "@@\n a\n-b\n+c").unwrap(), "a\nc");
    assert_eq!(updated("a\nb", "@@\n+c").unwrap(), "a\nb\nc");
    assert_eq!(updated("\u{feff}a\nb\n", "@@\n-a\n+c").unwrap(), "\u{feff}c\nb\n");
}

#[test]
fn nothing_is_written_if_one_file_does_not_match() {
    let directory = files(&[("a", "one\n"), ("b", "two\n")]);
    let patch = "*** Update File: a\n@@\n-one\n+1\n*** Add File: c\n+x\n*** Update File: b\n@@\n-three\n+3";
    let error = run(directory.path(), patch).unwrap_err();
    assert!(error.to_string().ends_with("quote them as they are\nthree"), "{error}");
    assert_eq!(fs::read_to_string(directory.path().join("a")).unwrap(), "one\n");
    assert!(!directory.path().join("c").exists());
}

#[test]
fn everything_is_restored_if_one_file_cannot_be_written() {
    let directory = files(&[("a", "one\n"), ("b", "two\n")]);
    let top = directory.path();
    // A path below a file is impossible, which shows only once the file exists.
    let operations = [
        Operation::Update {
            path: top.join("a"),
            target: None,
            hunks: vec![Hunk {
                lines: vec![Line::Remove("one".into()), Line::Insert("1".into())],
                ..Hunk::default()
            }],
        },
        Operation::Delete { path: top.join("b") },
        Operation::Add { path: top.join("new"), content: "x\n".into() },
        Operation::Add { path: top.join("new/below"), content: "x\n".into() },
    ];
    assert!(apply(&operations).is_err());
    assert_eq!(fs::read_to_string(top.join("a")).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(top.join("b")).unwrap(), "two\n");
    assert!(!top.join("new").exists());
}

#[test]
fn later_operations_see_earlier_results() {
    let directory = files(&[("a", "one\n")]);
    let patch = "*** Update File: a\n@@\n-one\n+two\n*** Update File: a\n@@\n-two\n+three";
    run(directory.path(), patch).unwrap();
    assert_eq!(fs::read_to_string(directory.path().join("a")).unwrap(), "three\n");
    let patch = "*** Delete File: a\n*** Update File: a\n@@\n-three\n+four";
    assert!(run(directory.path(), patch).is_err());
}

#[test]
fn missing_and_existing_files_are_named() {
    let directory = files(&[("a", "x\n"), ("b", "y\n")]);
    for (patch, expected) in [
        ("*** Update File: no\n@@\n-x\n+y", "File not found"),
        ("*** Delete File: no", "File not found"),
        ("*** Update File: a\n*** Move to: b", "exists already"),
    ] {
        let error = run(directory.path(), patch).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn text_around_a_patch_is_ignored() {
    let text = "apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: a\n\n*** End Patch\nEOF\n";
    assert_eq!(parse(text).unwrap(), [Operation::Delete { path: "a".to_owned() }]);
}

#[test]
fn syntax_errors_name_the_line() {
    for (text, expected) in [
        ("", "line 1 of the patch: it must begin with"),
        ("*** Begin Patch\n*** Delete File: a", "line 2 of the patch: it must end with"),
        ("*** Begin Patch\n*** End Patch", "the patch changes no file"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "line 2 of the patch: expected"),
        (
            "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
            "line 3 of the patch: every line of a new file",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch",
            "line 4 of the patch: a line of a change",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n*** End Patch",
            "line 2 of the patch: `*** Update File: a` has no change",
        ),
        ("*** Begin Patch\n*** Delete File:\n*** End Patch", "line 2 of the patch: a file must have a name"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_text_does_not_panic(
        lines in proptest::collection::vec("(\\*\\*\\* (Begin Patch|End Patch|Add File: a|Update File: a|Move to: b|End of File)|@@ ?a?|[-+ ]?[ab é]{0,3})", 0..20),
        text in "([ab é]{0,3}\r?\n){0,6}",
    ) {
        if let Ok(operations) = parse(&lines.join("\n")) {
            for operation in operations {
                if let Operation::Update { hunks, .. } = operation {
                    let _ = hunks::apply(Path::new("a"), &text, &hunks);
                }
            }
        }
    }
}
