//! Snapshots without git: the walk finds every change, and no other.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// Most snapshots until the files of a test are older than the last one.
const MAX_ROUNDS: usize = 200;

/// Compares the worktree with the last snapshot without git.
async fn unchanged(shadow: &SnapshotStore) -> Option<Tree> {
    shadow.walk.look(&shadow.git).await.unchanged()
}

/// Takes snapshots until the clock has moved on and the walk can vouch for all files.
async fn settle(shadow: &SnapshotStore) -> Tree {
    for _ in 0..MAX_ROUNDS {
        let tree = track(shadow).await;
        if unchanged(shadow).await.is_some() {
            return tree;
        }
    }
    panic!("the walk does not settle");
}

/// A repository in which every kind of file occurs.
async fn harness() -> Harness {
    let harness = Harness::new().await;
    for directory in ["source/deep", "target/debug", "logs", "environment"] {
        fs::create_dir_all(harness.path(directory)).unwrap();
    }
    harness.write(".gitignore", "*.log\n/target\n");
    harness.write("source/main.txt", "main\n");
    harness.write("source/deep/inner.txt", "inner\n");
    harness.write("target/debug/output", "built\n");
    harness.write("logs/only.log", "ignored\n");
    harness.write("environment/.gitignore", "*\n");
    harness.write("environment/setting", "ignored\n");
    symlink("kept.txt", harness.path("link")).unwrap();
    harness
}

/// A shadow that always asks git, at another place.
async fn plain(harness: &Harness) -> SnapshotStore {
    let repository = Repository::find(&harness.top).await.unwrap();
    let place = harness.data.join("plain");
    let mut shadow = open(place, &repository, &Closed::default()).await;
    shadow.walk.disable();
    shadow
}

#[tokio::test]
async fn an_unchanged_worktree_needs_no_git() {
    let harness = harness().await;
    let shadow = harness.shadow().await;
    let tree = settle(&shadow).await;
    assert_eq!(unchanged(&shadow).await.as_ref(), Some(&tree));
    harness.write("target/debug/output", "built again\n");
    harness.write("target/new", "ignored\n");
    harness.write("logs/only.log", "more\n");
    assert_eq!(unchanged(&shadow).await.as_ref(), Some(&tree), "ignored files do not count");
    assert_eq!(track(&shadow).await, tree);
}

#[tokio::test]
async fn a_file_that_was_only_touched_is_read_once() {
    let harness = harness().await;
    let shadow = harness.shadow().await;
    let tree = settle(&shadow).await;
    for _ in 0..3 {
        let file = fs::File::options().write(true).open(harness.path("kept.txt")).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap()).unwrap();
        assert_eq!(unchanged(&shadow).await, None);
        assert_eq!(settle(&shadow).await, tree);
    }
}

#[tokio::test]
async fn every_kind_of_change_is_seen() {
    type Change = fn(&Harness);
    let changes: [(&str, Change); 16] = [
        ("same size", |harness| harness.write("kept.txt", "KEPT\n")),
        ("other size", |harness| harness.write("source/deep/inner.txt", "longer than before\n")),
        ("removed", |harness| fs::remove_file(harness.path("source/main.txt")).unwrap()),
        ("new file", |harness| harness.write("source/new.txt", "new\n")),
        ("new file among ignored ones", |harness| harness.write("logs/kept.txt", "new\n")),
        ("new directory", |harness| {
            fs::create_dir_all(harness.path("one/two")).unwrap();
            harness.write("one/two/three.txt", "new\n");
        }),
        ("new file in it", |harness| harness.write("one/two/four.txt", "new\n")),
        ("renamed over", |harness| {
            harness.write("source/.kept.tmp", "other\n");
            fs::rename(harness.path("source/.kept.tmp"), harness.path("kept.txt")).unwrap();
        }),
        ("executable", |harness| {
            fs::set_permissions(harness.path("kept.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("link to elsewhere", |harness| {
            fs::remove_file(harness.path("link")).unwrap();
            symlink("changed.txt", harness.path("link")).unwrap();
        }),
        ("directory becomes a link", |harness| {
            fs::rename(harness.path("source"), harness.path("target/source")).unwrap();
            symlink("target/source", harness.path("source")).unwrap();
        }),
        ("rules", |harness| harness.write(".gitignore", "*.log\n")),
        ("rules among ignored files", |harness| harness.write("environment/.gitignore", "*.no\n")),
        ("a repository inside", |harness| {
            fs::create_dir_all(harness.path("nested/.git")).unwrap();
            harness.write("nested/file.txt", "nested\n");
        }),
        ("a file becomes a directory", |harness| {
            fs::remove_file(harness.path("changed.txt")).unwrap();
            fs::create_dir(harness.path("changed.txt")).unwrap();
            harness.write("changed.txt/inside", "new\n");
        }),
        ("everything removed", |harness| fs::remove_dir_all(harness.path("one")).unwrap()),
    ];
    let harness = harness().await;
    let (shadow, plain) = (harness.shadow().await, plain(&harness).await);
    for (name, change) in changes {
        let before = settle(&shadow).await;
        assert_eq!(track(&plain).await, before, "before: {name}");
        change(&harness);
        assert_eq!(unchanged(&shadow).await, None, "{name}");
        let after = track(&shadow).await;
        assert_ne!(after, before, "{name}");
        assert_eq!(track(&plain).await, after, "{name}");
    }
}

#[tokio::test]
async fn a_large_file_that_shrinks_is_added() {
    let harness = harness().await;
    let shadow = harness.shadow().await;
    harness.write("large.dat", vec![b'x'; usize::try_from(MAX_UNTRACKED).unwrap() + 1]);
    let before = settle(&shadow).await;
    harness.write("large.dat", "small");
    let after = track(&shadow).await;
    assert_eq!(changed(&shadow, &before, &after).await, harness.all(&["large.dat"]));
}

#[tokio::test]
async fn a_repository_with_a_submodule_is_left_to_git() {
    let harness = Harness::new().await;
    fs::create_dir(harness.path("module")).unwrap();
    harness.git("init -q module").await;
    harness.git("-C module commit -q --allow-empty -m first").await;
    let shadow = harness.shadow().await;
    let before = track(&shadow).await;
    assert_eq!(unchanged(&shadow).await, None);
    harness.git("-C module commit -q --allow-empty -m second").await;
    assert_ne!(track(&shadow).await, before);
}

#[tokio::test]
async fn a_change_during_a_snapshot_is_seen_by_the_next() {
    let harness = harness().await;
    let (shadow, plain) = (harness.shadow().await, plain(&harness).await);
    for round in 0..20 {
        let taking = track(&shadow);
        let writing = async {
            for turn in 0..50 {
                harness.write("kept.txt", format!("{round:02} {turn:02}"));
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(taking, writing);
        assert_eq!(track(&shadow).await, track(&plain).await, "round {round}");
    }
}

/// A small generator, so that a failing case can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick(&mut self, among: &[&'static str]) -> &'static str {
        among[self.below(among.len())]
    }

    fn name(&mut self) -> String {
        let directory = self.pick(&["", "", "a/", "a/b/", "c d/", "target/", "logs/"]);
        let file = self.pick(&["one", "two.txt", "three.log", "é", "[x]*", ".gitignore", "-dash"]);
        format!("{directory}{file}")
    }

    /// Changes something at random. Failures are part of it: a name may be taken by a directory.
    fn change(&mut self, harness: &Harness) {
        let path = harness.path(&self.name());
        let other = harness.path(&self.name());
        let is_rules = path.ends_with(".gitignore");
        if let Some(parent) = path.parent() {
            let _ = fs::create_dir_all(parent);
        }
        let content = if is_rules {
            self.pick(&["*.log\n", "/target\n", "*\n", "one\n!two.txt\n", "b/\n", ""])
        } else {
            self.pick(&["aaaa", "bbbb", "cccc", "longer", ""])
        };
        let _ = match self.below(10) {
            0..=3 => fs::write(&path, content),
            4 => fs::remove_file(&path),
            5 => fs::rename(&path, &other),
            6 => fs::remove_dir_all(path.parent().filter(|parent| *parent != harness.top).unwrap_or(&path)),
            7 => fs::remove_file(&path).and_then(|()| symlink(self.pick(&["a", "one"]), &path)),
            8 => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)),
            _ => fs::write(&other, content).and_then(|()| fs::rename(&other, &path)),
        };
    }
}

#[tokio::test]
async fn random_changes_give_the_same_trees_as_plain_git() {
    for seed in 1..=4 {
        let mut random = Random(seed);
        let harness = Harness::new().await;
        let (shadow, plain) = (harness.shadow().await, plain(&harness).await);
        for step in 0..40 {
            for _ in 0..random.below(4) {
                random.change(&harness);
            }
            let (tree, expected) = (track(&shadow).await, track(&plain).await);
            assert_eq!(tree, expected, "seed {seed}, step {step}");
            assert!(
                unchanged(&shadow).await.is_none_or(|known| known == expected),
                "seed {seed}, step {step}"
            );
        }
    }
}

#[tokio::test]
async fn a_change_among_many_files_is_seen() {
    let harness = Harness::empty().await;
    for number in 0..4_200 {
        if number % 100 == 0 {
            fs::create_dir(harness.path(&format!("{}", number / 100))).unwrap();
        }
        harness.write(&format!("{}/{number}", number / 100), "same");
    }
    harness.git("add .").await;
    harness.git("commit -q -m many").await;
    let shadow = harness.shadow().await;
    track(&shadow).await;
    let before = track(&shadow).await;
    harness.write("41/4199", "SAME");
    let after = track(&shadow).await;
    assert_eq!(changed(&shadow, &before, &after).await, harness.all(&["41/4199"]));
}
