//! Snapshots without git: the walk finds every change, and no other.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// Most snapshots until the files of a test are older than the last one.
const MAX_ROUNDS: usize = 200;

/// Compares the worktree with the last snapshot without git.
async fn unchanged(shadow: &Shadow) -> Option<Tree> {
    shadow.walk.look(&shadow.git).await.unchanged()
}

/// Takes snapshots until the clock has moved on and the walk can vouch for all files.
async fn settle(shadow: &Shadow) -> Tree {
    for _ in 0..MAX_ROUNDS {
        let tree = track(shadow).await;
        if unchanged(shadow).await.is_some() {
            return tree;
        }
    }
    panic!("the walk does not settle");
}

/// A repository in which every kind of file occurs.
async fn world() -> World {
    let world = World::new().await;
    for directory in ["source/deep", "target/debug", "logs", "environment"] {
        fs::create_dir_all(world.path(directory)).unwrap();
    }
    world.write(".gitignore", "*.log\n/target\n");
    world.write("source/main.txt", "main\n");
    world.write("source/deep/inner.txt", "inner\n");
    world.write("target/debug/output", "built\n");
    world.write("logs/only.log", "ignored\n");
    world.write("environment/.gitignore", "*\n");
    world.write("environment/setting", "ignored\n");
    symlink("kept.txt", world.path("link")).unwrap();
    world
}

/// A shadow that always asks git, at another place.
async fn plain(world: &World) -> Shadow {
    let repository = Repository::find(&world.top).await.unwrap();
    let place = world.data.join("plain");
    let mut shadow =
        Shadow::open(place, &repository, &Closed::default(), &CancellationToken::new()).await.unwrap();
    shadow.walk.disable();
    shadow
}

#[tokio::test]
async fn an_unchanged_worktree_needs_no_git() {
    let world = world().await;
    let shadow = world.shadow().await;
    let tree = settle(&shadow).await;
    assert_eq!(unchanged(&shadow).await.as_ref(), Some(&tree));
    world.write("target/debug/output", "built again\n");
    world.write("target/new", "ignored\n");
    world.write("logs/only.log", "more\n");
    assert_eq!(unchanged(&shadow).await.as_ref(), Some(&tree), "ignored files do not count");
    assert_eq!(track(&shadow).await, tree);
}

#[tokio::test]
async fn a_file_that_was_only_touched_is_read_once() {
    let world = world().await;
    let shadow = world.shadow().await;
    let tree = settle(&shadow).await;
    for _ in 0..3 {
        let file = fs::File::options().write(true).open(world.path("kept.txt")).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap()).unwrap();
        assert_eq!(unchanged(&shadow).await, None);
        assert_eq!(settle(&shadow).await, tree);
    }
}

#[tokio::test]
async fn every_kind_of_change_is_seen() {
    type Change = fn(&World);
    let changes: [(&str, Change); 16] = [
        ("same size", |world| world.write("kept.txt", "KEPT\n")),
        ("other size", |world| world.write("source/deep/inner.txt", "longer than before\n")),
        ("removed", |world| fs::remove_file(world.path("source/main.txt")).unwrap()),
        ("new file", |world| world.write("source/new.txt", "new\n")),
        ("new file among ignored ones", |world| world.write("logs/kept.txt", "new\n")),
        ("new directory", |world| {
            fs::create_dir_all(world.path("one/two")).unwrap();
            world.write("one/two/three.txt", "new\n");
        }),
        ("new file in it", |world| world.write("one/two/four.txt", "new\n")),
        ("renamed over", |world| {
            world.write("source/.kept.tmp", "other\n");
            fs::rename(world.path("source/.kept.tmp"), world.path("kept.txt")).unwrap();
        }),
        ("executable", |world| {
            fs::set_permissions(world.path("kept.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("link to elsewhere", |world| {
            fs::remove_file(world.path("link")).unwrap();
            symlink("changed.txt", world.path("link")).unwrap();
        }),
        ("directory becomes a link", |world| {
            fs::rename(world.path("source"), world.path("target/source")).unwrap();
            symlink("target/source", world.path("source")).unwrap();
        }),
        ("rules", |world| world.write(".gitignore", "*.log\n")),
        ("rules among ignored files", |world| world.write("environment/.gitignore", "*.no\n")),
        ("a repository inside", |world| {
            fs::create_dir_all(world.path("nested/.git")).unwrap();
            world.write("nested/file.txt", "nested\n");
        }),
        ("a file becomes a directory", |world| {
            fs::remove_file(world.path("changed.txt")).unwrap();
            fs::create_dir(world.path("changed.txt")).unwrap();
            world.write("changed.txt/inside", "new\n");
        }),
        ("everything removed", |world| fs::remove_dir_all(world.path("one")).unwrap()),
    ];
    let world = world().await;
    let (shadow, plain) = (world.shadow().await, plain(&world).await);
    for (name, change) in changes {
        let before = settle(&shadow).await;
        assert_eq!(track(&plain).await, before, "before: {name}");
        change(&world);
        assert_eq!(unchanged(&shadow).await, None, "{name}");
        let after = track(&shadow).await;
        assert_ne!(after, before, "{name}");
        assert_eq!(track(&plain).await, after, "{name}");
    }
}

#[tokio::test]
async fn a_large_file_that_shrinks_is_added() {
    let world = world().await;
    let shadow = world.shadow().await;
    world.write("large.dat", vec![b'x'; usize::try_from(MAX_UNTRACKED).unwrap() + 1]);
    let before = settle(&shadow).await;
    world.write("large.dat", "small");
    let after = track(&shadow).await;
    assert_eq!(changed(&shadow, &before, &after).await, world.all(&["large.dat"]));
}

#[tokio::test]
async fn a_repository_with_a_submodule_is_left_to_git() {
    let world = World::new().await;
    fs::create_dir(world.path("module")).unwrap();
    world.git("init -q module").await;
    world.git("-C module commit -q --allow-empty -m first").await;
    let shadow = world.shadow().await;
    let before = track(&shadow).await;
    assert_eq!(unchanged(&shadow).await, None);
    world.git("-C module commit -q --allow-empty -m second").await;
    assert_ne!(track(&shadow).await, before);
}

#[tokio::test]
async fn a_change_during_a_snapshot_is_seen_by_the_next() {
    let world = world().await;
    let (shadow, plain) = (world.shadow().await, plain(&world).await);
    for round in 0..20 {
        let taking = track(&shadow);
        let writing = async {
            for turn in 0..50 {
                world.write("kept.txt", format!("{round:02} {turn:02}"));
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
    fn change(&mut self, world: &World) {
        let path = world.path(&self.name());
        let other = world.path(&self.name());
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
            6 => fs::remove_dir_all(path.parent().filter(|parent| *parent != world.top).unwrap_or(&path)),
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
        let world = World::new().await;
        let (shadow, plain) = (world.shadow().await, plain(&world).await);
        for step in 0..40 {
            for _ in 0..random.below(4) {
                random.change(&world);
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
    let world = World::empty().await;
    for number in 0..4_200 {
        if number % 100 == 0 {
            fs::create_dir(world.path(&format!("{}", number / 100))).unwrap();
        }
        world.write(&format!("{}/{number}", number / 100), "same");
    }
    world.git("add .").await;
    world.git("commit -q -m many").await;
    let shadow = world.shadow().await;
    track(&shadow).await;
    let before = track(&shadow).await;
    world.write("41/4199", "SAME");
    let after = track(&shadow).await;
    assert_eq!(changed(&shadow, &before, &after).await, world.all(&["41/4199"]));
}
