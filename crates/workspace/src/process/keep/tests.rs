//! Saving and restoring files in real directories.

use tempfile::TempDir;

use super::*;

fn directory() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    (directory, path)
}

fn whole(path: &Path) -> SavedPath {
    SavedPath { path: path.to_owned(), contents: true }
}

fn keeper(kept: &[SavedPath], writable: &Path) -> SavedPaths {
    SavedPaths::new(kept.to_vec(), &[writable.to_owned()]).unwrap()
}

/// The restored paths, as `path outcome` relative to a directory.
fn told(restored: &[Restored], top: &Path) -> Vec<String> {
    let relative = |path: &Path| path.strip_prefix(top).unwrap().display().to_string();
    restored.iter().map(|it| format!("{} {:?}", relative(&it.path), it.outcome)).collect()
}

#[test]
fn files_are_restored_whatever_replaced_them() {
    let (_kept, top) = directory();
    let file = top.join("baton.json");
    let breakages: [fn(&Path); 6] = [
        |file| fs::write(file, "{\"sandbox\":\"off\"}").unwrap(),
        |file| fs::remove_file(file).unwrap(),
        |file| {
            fs::write(file.with_file_name("other"), "evil").unwrap();
            fs::rename(file.with_file_name("other"), file).unwrap();
        },
        |file| {
            fs::remove_file(file).unwrap();
            symlink("elsewhere", file).unwrap();
        },
        |file| {
            fs::remove_file(file).unwrap();
            fs::create_dir_all(file.join("deep")).unwrap();
        },
        |file| fs::set_permissions(file, Permissions::from_mode(0o777)).unwrap(),
    ];
    for breakage in breakages {
        fs::write(&file, "as it was").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let mut keeper = keeper(&[whole(&file)], &top);
        breakage(&file);
        assert_eq!(told(&keeper.restore(), &top), ["baton.json PutBack"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
        assert_eq!(fs::symlink_metadata(&file).unwrap().permissions().mode() & MODE, 0o640);
    }
    assert_eq!(fs::read_dir(&top).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn new_files_are_removed_and_unchanged_ones_not_reported() {
    let (_kept, top) = directory();
    fs::create_dir_all(top.join("hooks/deep")).unwrap();
    fs::write(top.join("hooks/deep/old"), "1").unwrap();
    let mut keeper = keeper(&[whole(&top.join("hooks")), whole(&top.join("new"))], &top);
    fs::write(top.join("hooks/pre-commit"), "evil").unwrap();
    fs::create_dir_all(top.join("new/deep")).unwrap();
    assert_eq!(told(&keeper.restore(), &top), ["hooks/pre-commit Removed", "new Removed"]);
    assert!(!top.join("hooks/pre-commit").exists() && !top.join("new").exists());
    assert_eq!(fs::read_to_string(top.join("hooks/deep/old")).unwrap(), "1");
    assert_eq!(fs::read_dir(&top).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_directory_that_was_replaced_is_created_again() {
    let (_kept, top) = directory();
    let (_other, outside) = directory();
    fs::create_dir(top.join(".opencode")).unwrap();
    fs::write(top.join(".opencode/a"), "1").unwrap();
    let mut keeper = keeper(&[whole(&top.join(".opencode"))], &top);
    fs::rename(top.join(".opencode"), top.join("moved")).unwrap();
    symlink(&outside, top.join(".opencode")).unwrap();
    assert_eq!(told(&keeper.restore(), &top), [".opencode PutBack", ".opencode/a PutBack"]);
    assert!(fs::symlink_metadata(top.join(".opencode")).unwrap().is_dir());
    assert_eq!(fs::read_to_string(top.join(".opencode/a")).unwrap(), "1");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing is written through the link");
}

#[test]
fn nothing_is_touched_behind_a_directory_that_became_a_link() {
    let (_kept, top) = directory();
    let (_other, outside) = directory();
    fs::create_dir(top.join("sub")).unwrap();
    fs::create_dir(outside.join(".opencode")).unwrap();
    let mut keeper = keeper(&[whole(&top.join("sub/.opencode")), whole(&top.join("sub/baton.json"))], &top);
    fs::remove_dir(top.join("sub")).unwrap();
    symlink(&outside, top.join("sub")).unwrap();
    let restored = keeper.restore();
    assert_eq!(restored.len(), 2);
    for it in restored {
        assert!(matches!(it.outcome, RestoreOutcome::Failed(why) if why.contains("has become a link")));
    }
    assert!(outside.join(".opencode").is_dir(), "it does not belong to the project");
}

#[test]
fn a_link_and_its_target_are_restored() {
    let (_kept, top) = directory();
    let (_other, outside) = directory();
    fs::create_dir(top.join("shared")).unwrap();
    fs::write(top.join("shared/a"), "1").unwrap();
    symlink("shared", top.join("second")).unwrap();
    symlink("second", top.join(".opencode")).unwrap();
    symlink(&outside, top.join("shared/out")).unwrap();
    let mut keeper = keeper(&[whole(&top.join(".opencode"))], &top);
    fs::write(top.join("shared/a"), "2").unwrap();
    fs::remove_file(top.join("second")).unwrap();
    fs::write(outside.join("new"), "").unwrap();
    assert_eq!(told(&keeper.restore(), &top), ["second PutBack", "shared/a PutBack"]);
    assert!(outside.join("new").exists(), "the program cannot write there, so another process did");
}

#[test]
fn concurrent_programs_share_the_saved_state() {
    let (_kept, top) = directory();
    let file = top.join("opencode.json");
    fs::write(&file, "as it was").unwrap();
    let mut first = keeper(&[whole(&file)], &top);
    fs::write(&file, "changed").unwrap();
    let mut second = keeper(&[whole(&file)], &top);
    assert_eq!(first.restore().len(), 1);
    assert_eq!(second.restore(), [], "the second one does not bring the change back");
    assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
    fs::write(&file, "by the user").unwrap();
    assert_eq!(keeper(&[whole(&file)], &top).restore(), [], "later programs start from the current state");
}

#[test]
fn dropping_a_keeper_restores_files() {
    let (_kept, top) = directory();
    let keeper = keeper(&[whole(&top.join("new"))], &top);
    fs::write(top.join("new"), "").unwrap();
    drop(keeper);
    assert!(!top.join("new").exists());
}

#[test]
fn the_saved_state_is_bounded() {
    let (_kept, top) = directory();
    let refused = |kept: &Path| SavedPaths::new(vec![whole(kept)], &[]).unwrap_err().to_string();
    fs::File::create(top.join("large")).unwrap().set_len(MAX_KEPT_BYTES + 1).unwrap();
    assert!(refused(&top.join("large")).contains("more than 2000 files or 8 MiB"));
    fs::create_dir(top.join("many")).unwrap();
    for number in 0..MAX_KEPT_FILES {
        fs::write(top.join(format!("many/{number}")), "").unwrap();
    }
    assert!(refused(&top.join("many")).contains("/many` has more than"));
    fs::create_dir(top.join("few")).unwrap();
    fs::rename(top.join("many"), top.join("few/node_modules")).unwrap();
    keeper(&[whole(&top.join("few"))], &top);
}
