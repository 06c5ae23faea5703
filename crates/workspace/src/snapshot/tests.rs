//! Snapshots of real repositories.

mod walk;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::git::Status;
use crate::process::{self, Exit, Spec};

/// Opens snapshots with timeouts that no load of the machine exceeds.
async fn open(place: PathBuf, repository: &Repository, closed: &Closed) -> SnapshotStore {
    let timeouts = SnapshotTimeouts::uniform(Duration::from_hours(1));
    SnapshotStore::open(place, repository, closed, timeouts, &CancellationToken::new()).await.unwrap()
}

struct Harness {
    /// Dropping it removes all files.
    _directory: TempDir,
    top: PathBuf,
    data: PathBuf,
}

impl Harness {
    /// A repository with one commit.
    async fn new() -> Self {
        let harness = Self::empty().await;
        harness.write("kept.txt", "kept\n");
        harness.write("changed.txt", "one\ntwo\nthree\n");
        harness.write("removed.txt", "removed\n");
        harness.write(".gitignore", "*.log\n");
        harness.git("add .").await;
        harness.git("commit -q -m first").await;
        harness
    }

    async fn empty() -> Self {
        let directory = TempDir::new().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let (top, data) = (base.join("project"), base.join("data"));
        fs::create_dir(&top).unwrap();
        let harness = Self { _directory: directory, top, data };
        harness.git("init -q -b trunk").await;
        harness
    }

    async fn git(&self, command: &str) -> String {
        let args = format!("-c user.name=Test -c user.email=test@example.com {command}");
        let spec =
            Spec::new("git", &self.top, WORK).args(args.split(' ')).hide(["GIT_DIR", "GIT_INDEX_FILE"]);
        let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
        done.output.text()
    }

    async fn shadow(&self) -> SnapshotStore {
        let repository = Repository::find(&self.top).await.unwrap();
        let place = SnapshotStore::place(&self.data, "project", &repository.worktree);
        open(place, &repository, &Closed::default()).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read(self.path(name)).ok().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn all(&self, names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(|name| self.path(name)).collect()
    }

    /// Changes a file, adds one in a new directory and removes one.
    fn disturb(&self) {
        self.write("changed.txt", "one\n2\nthree\n");
        fs::create_dir(self.path("new")).unwrap();
        self.write("new/added é.txt", "added\n");
        fs::remove_file(self.path("removed.txt")).unwrap();
        self.write("noise.log", "ignored");
    }
}

async fn track(shadow: &SnapshotStore) -> Tree {
    shadow.track(&CancellationToken::new()).await.unwrap()
}

async fn changed(shadow: &SnapshotStore, from: &Tree, to: &Tree) -> BTreeSet<PathBuf> {
    shadow.changed(from, to, &CancellationToken::new()).await.unwrap()
}

async fn restore(shadow: &SnapshotStore, tree: &Tree, files: &BTreeSet<PathBuf>) {
    shadow.restore(tree, files, &CancellationToken::new()).await.unwrap();
}

#[tokio::test]
async fn changes_are_detected_undone_and_redone() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    assert_eq!(before, track(&shadow).await, "nothing happened");
    harness.disturb();
    let after = track(&shadow).await;
    let files = changed(&shadow, &before, &after).await;
    assert_eq!(files, harness.all(&["changed.txt", "new/added é.txt", "removed.txt"]));
    restore(&shadow, &before, &files).await;
    assert_eq!(harness.read("changed.txt").as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(harness.read("removed.txt").as_deref(), Some("removed\n"));
    assert_eq!(harness.read("new/added é.txt"), None);
    assert_eq!(track(&shadow).await, before);
    restore(&shadow, &after, &files).await;
    assert_eq!(harness.read("new/added é.txt").as_deref(), Some("added\n"));
    assert_eq!(track(&shadow).await, after);
    assert_eq!(harness.read("noise.log").as_deref(), Some("ignored"));
}

#[tokio::test]
async fn only_the_named_files_are_restored() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    harness.disturb();
    let outside = harness.data.join("outside.txt");
    fs::write(&outside, "outside").unwrap();
    let mut files = harness.all(&["removed.txt", "never/was.txt"]);
    files.insert(outside.clone());
    restore(&shadow, &before, &files).await;
    assert!(harness.read("removed.txt").is_some());
    assert_eq!(harness.read("changed.txt").as_deref(), Some("one\n2\nthree\n"));
    assert!(harness.read("new/added é.txt").is_some());
    assert!(outside.exists(), "files outside stay unchanged");
}

#[tokio::test]
async fn a_link_does_not_lead_out_of_the_worktree() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    fs::write(harness.data.join("precious.txt"), "precious").unwrap();
    std::os::unix::fs::symlink(&harness.data, harness.path("door")).unwrap();
    restore(&shadow, &before, &harness.all(&["door/precious.txt"])).await;
    assert!(harness.data.join("precious.txt").exists());
}

#[tokio::test]
async fn the_repository_itself_is_not_changed() {
    let harness = Harness::new().await;
    harness.disturb();
    harness.git("add changed.txt").await;
    let index = fs::read(harness.path(".git/index")).unwrap();
    let status = harness.git("--no-optional-locks status --porcelain").await;
    let shadow = harness.shadow().await;
    let tree = track(&shadow).await;
    harness.write("kept.txt", "other\n");
    restore(&shadow, &tree, &harness.all(&["kept.txt"])).await;
    assert_eq!(harness.git("--no-optional-locks status --porcelain").await, status);
    assert_eq!(fs::read(harness.path(".git/index")).unwrap(), index);
}

#[tokio::test]
async fn bytes_are_restored_unchanged_despite_attributes() {
    let harness = Harness::new().await;
    harness.write(
        ".gitattributes",
        "*.txt text=auto eol=lf ident\n*.bin filter=upper\n*.utf16 working-tree-encoding=UTF-16\n",
    );
    harness.git("config filter.upper.clean tr?a-z?A-Z").await;
    let odd = [("crlf.txt", "a\r\n$Id$\r\n"), ("data.bin", "lower"), ("wide.utf16", "not really")];
    for (name, content) in odd {
        harness.write(name, content);
    }
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    for (name, _) in odd {
        harness.write(name, "something else");
    }
    restore(&shadow, &before, &harness.all(&odd.map(|(name, _)| name))).await;
    for (name, content) in odd {
        assert_eq!(harness.read(name).as_deref(), Some(content), "{name}");
    }
}

#[tokio::test]
async fn a_change_of_the_same_size_in_the_same_moment_is_seen() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    let mut last = track(&shadow).await;
    for round in 0..10 {
        harness.write("kept.txt", format!("{round}"));
        let next = track(&shadow).await;
        assert_ne!(next, last, "round {round}");
        last = next;
    }
}

#[tokio::test]
async fn large_files_are_left_out_unless_they_are_committed() {
    let harness = Harness::new().await;
    let large = vec![b'x'; usize::try_from(MAX_UNTRACKED).unwrap() + 1];
    harness.write("committed.dat", &large);
    harness.git("add committed.dat").await;
    harness.git("commit -q -m large").await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    harness.write("committed.dat", [&large[..], b"y"].concat());
    harness.write("large :(x)*.dat", &large);
    harness.write("small.dat", "small");
    let after = track(&shadow).await;
    assert_eq!(changed(&shadow, &before, &after).await, harness.all(&["committed.dat", "small.dat"]));
    restore(&shadow, &before, &harness.all(&["committed.dat"])).await;
    assert_eq!(fs::metadata(harness.path("committed.dat")).unwrap().len(), MAX_UNTRACKED + 1);
}

#[tokio::test]
async fn a_repository_without_a_commit_and_one_inside_another_are_fine() {
    let harness = Harness::empty().await;
    harness.write("first.txt", "first");
    fs::create_dir(harness.path("nested")).unwrap();
    harness.git("init -q nested").await;
    harness.write("nested/inner.txt", "inner");
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    harness.write("first.txt", "other");
    let after = track(&shadow).await;
    assert_eq!(changed(&shadow, &before, &after).await, harness.all(&["first.txt"]));
}

#[tokio::test]
async fn snapshots_at_the_same_time_agree() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    harness.disturb();
    let cancel = CancellationToken::new();
    let (one, two, three) = tokio::join!(shadow.track(&cancel), shadow.track(&cancel), shadow.track(&cancel));
    let (one, two, three) = (one.unwrap(), two.unwrap(), three.unwrap());
    assert_eq!((&one, &two), (&two, &three));
    let again = harness.shadow().await;
    assert_eq!(track(&again).await, one, "a shadow is found again");
}

#[tokio::test]
async fn diffs_have_counts_and_patches() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    harness.disturb();
    harness.write("binary.dat", [0, 159, 146, 150]);
    let after = track(&shadow).await;
    let files = harness.all(&["changed.txt", "new/added é.txt", "removed.txt", "binary.dat", "kept.txt"]);
    let diffs = shadow.compare(&before, &after, &files, &CancellationToken::new()).await.unwrap();
    let facts: Vec<(&str, u64, u64, Status)> =
        diffs.iter().map(|diff| (diff.file.as_str(), diff.additions, diff.deletions, diff.status)).collect();
    let expected = [
        ("binary.dat", 0, 0, Status::Added),
        ("changed.txt", 1, 1, Status::Modified),
        ("new/added é.txt", 1, 0, Status::Added),
        ("removed.txt", 0, 1, Status::Deleted),
    ];
    assert_eq!(facts, expected);
    let patch = "Index: changed.txt\n\
        ===================================================================\n\
        --- changed.txt\t\n+++ changed.txt\t\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    assert_eq!(diffs[1].patch.as_deref(), Some(patch));
    assert_eq!(diffs[0].patch, None);
    assert!(
        diffs[3].patch.as_deref().unwrap().ends_with("@@ -1 +0,0 @@\n-removed\n"),
        "{:?}",
        diffs[3].patch
    );
    let one = harness.all(&["removed.txt"]);
    let diffs = shadow.compare(&before, &after, &one, &CancellationToken::new()).await.unwrap();
    assert_eq!(diffs.len(), 1, "only the requested files");
}

#[tokio::test]
async fn a_large_diff_has_counts_and_no_patch() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    harness.write("a.txt", "small\n");
    harness.write("b.txt", "line\n".repeat(MAX_PATCHES / 4));
    harness.write("c.txt", "small\n");
    let after = track(&shadow).await;
    let files = harness.all(&["a.txt", "b.txt", "c.txt"]);
    let diffs = shadow.compare(&before, &after, &files, &CancellationToken::new()).await.unwrap();
    let shown: Vec<bool> = diffs.iter().map(|diff| diff.patch.is_some()).collect();
    assert_eq!(shown, [true, false, false]);
    assert_eq!(diffs[1].additions, u64::try_from(MAX_PATCHES / 4).unwrap());
}

#[tokio::test]
async fn a_shadow_in_the_worktree_excludes_itself() {
    let mut harness = Harness::new().await;
    harness.data = harness.path("data");
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    assert_eq!(track(&shadow).await, before);
}

#[tokio::test]
async fn a_cancelled_snapshot_leaves_nothing_behind() {
    let harness = Harness::new().await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(matches!(shadow.track(&cancel).await, Err(Error::Stopped)));
    let place = SnapshotStore::place(&harness.data, "project", Path::new(&harness.top));
    let copies = fs::read_dir(place)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("index-"));
    assert_eq!(copies.count(), 0);
    assert_eq!(track(&shadow).await, before);
}

#[test]
fn only_ids_are_trees() {
    assert!(Tree::parse(&"a1".repeat(20)).is_some());
    for bad in ["", "HEAD", "--output=x", &"g1".repeat(20), &"a1".repeat(21)] {
        assert_eq!(Tree::parse(bad), None, "{bad}");
    }
}

#[tokio::test]
async fn closed_paths_are_in_no_snapshot() {
    let harness = Harness::new().await;
    let repository = Repository::find(&harness.top).await.unwrap();
    let place = SnapshotStore::place(&harness.data, "project", &repository.worktree);
    let closed = Closed::new([harness.path("[data] of*"), harness.path("key.json")], []);
    let shadow = open(place, &repository, &closed).await;
    let before = track(&shadow).await;
    fs::create_dir(harness.path("[data] of*")).unwrap();
    for name in ["[data] of*/auth.json", "key.json", "open.json"] {
        harness.write(name, "key\n");
    }
    let after = track(&shadow).await;
    assert_eq!(changed(&shadow, &before, &after).await, harness.all(&["open.json"]));
}
