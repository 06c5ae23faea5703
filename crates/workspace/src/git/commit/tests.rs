//! Real repositories in every state that a user may leave them in.

use tempfile::TempDir;

use super::*;
use crate::git::tests::git;

struct TestRepository {
    directory: TempDir,
    repository: Repository,
}

impl TestRepository {
    async fn empty() -> Self {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        git(&top, "init -q -b main").await;
        git(&top, "config user.name Ada").await;
        git(&top, "config user.email ada@example.com").await;
        let repository = Repository::find(&top).await.unwrap();
        Self { directory, repository }
    }

    async fn new() -> Self {
        let place = Self::empty().await;
        place.write("a.txt", "one\n");
        place.write("b.txt", "one\n");
        git(&place.repository.worktree, "add .").await;
        git(&place.repository.worktree, "commit -q -m first").await;
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    async fn commit(&self, key: &str, names: &[&str]) -> Result<Committed, Error> {
        let files = names.iter().map(|name| self.repository.worktree.join(name)).collect();
        let message = format!("Change things\n\nTurn: {key}\n");
        let wish = NewCommit { files: &files, message: &message, trailer: ("Turn", key), hidden: &[] };
        self.repository.commit(wish).await
    }

    async fn say(&self, args: &[&str]) -> String {
        crate::git::call::run(&self.repository.worktree, args, DEADLINE).await.unwrap()
    }

    async fn status(&self) -> String {
        self.say(&["status", "--porcelain"]).await
    }

    async fn commits(&self) -> usize {
        self.say(&["rev-list", "HEAD"]).await.lines().count()
    }
}

fn is_made(committed: &Committed) -> bool {
    matches!(committed, Committed::Made { left_out, .. } if left_out.is_empty())
}

#[tokio::test]
async fn only_the_named_files_are_committed_and_nothing_else_is_touched() {
    let place = TestRepository::new().await;
    place.write("staged.txt", "mine\n");
    git(&place.repository.worktree, "add staged.txt").await;
    place.write("b.txt", "mine too\n");
    place.write("untracked.txt", "mine as well\n");
    place.write("a.txt", "two\n");
    place.write("new [1]*.txt", "new\n");
    let before = place.status().await;
    assert!(is_made(&place.commit("m1", &["a.txt", "new [1]*.txt"]).await.unwrap()));
    assert_eq!(
        place.say(&["show", "--name-status", "--format=", "HEAD"]).await,
        "M\ta.txt\nA\tnew [1]*.txt\n"
    );
    let left: Vec<&str> =
        before.lines().filter(|line| !line.contains("a.txt") && !line.contains("new [1]")).collect();
    assert_eq!(place.status().await.lines().collect::<Vec<_>>(), left);
    assert!(left.contains(&"A  staged.txt") && left.contains(&" M b.txt"), "{left:?}");
    assert_eq!(place.say(&["diff", "--cached", "--name-only"]).await, "staged.txt\n");
}

#[tokio::test]
async fn deleted_files_are_committed_and_ignored_files_are_not() {
    let place = TestRepository::new().await;
    place.write(".gitignore", "*.log\n");
    place.write("x.log", "noise\n");
    std::fs::remove_file(place.repository.worktree.join("b.txt")).unwrap();
    let files = ["b.txt", "x.log", ".gitignore", "never-there.txt", "../outside.txt"];
    assert!(is_made(&place.commit("m1", &files).await.unwrap()));
    assert_eq!(place.say(&["show", "--name-status", "--format=", "HEAD"]).await, "A\t.gitignore\nD\tb.txt\n");
    assert_eq!(place.status().await, "");
}

#[tokio::test]
async fn nothing_is_committed_when_nothing_changed() {
    let place = TestRepository::new().await;
    assert_eq!(place.commit("m1", &[]).await.unwrap(), Committed::Nothing);
    assert_eq!(place.commit("m1", &["a.txt", "never-there.txt"]).await.unwrap(), Committed::Nothing);
    assert_eq!(place.commits().await, 1);
}

#[tokio::test]
async fn a_commit_is_made_once() {
    let place = TestRepository::new().await;
    place.write("a.txt", "two\n");
    assert!(is_made(&place.commit("m1", &["a.txt"]).await.unwrap()));
    git(&place.repository.worktree, "commit -q --allow-empty -m another").await;
    place.write("a.txt", "three\n");
    assert_eq!(place.commit("m1", &["a.txt"]).await.unwrap(), Committed::Known);
    assert!(is_made(&place.commit("m2", &["a.txt"]).await.unwrap()));
    assert_eq!(place.commits().await, 4);
}

#[tokio::test]
async fn a_file_that_the_user_staged_partly_is_left_out() {
    let place = TestRepository::new().await;
    place.write("a.txt", "staged by the user\n");
    git(&place.repository.worktree, "add a.txt").await;
    place.write("a.txt", "and then changed\n");
    // Fully staged, so the commit contains exactly its content.
    place.write("b.txt", "two\n");
    git(&place.repository.worktree, "add b.txt").await;
    let made = place.commit("m1", &["a.txt", "b.txt"]).await.unwrap();
    assert!(matches!(&made, Committed::Made { left_out, .. } if *left_out == ["a.txt"]), "{made:?}");
    assert_eq!(place.status().await, "MM a.txt\n");
    assert_eq!(place.say(&["show", ":a.txt"]).await, "staged by the user\n");
}

#[tokio::test]
async fn the_first_commit_of_a_repository_works() {
    let place = TestRepository::empty().await;
    place.write("a.txt", "one\n");
    place.write("mine.txt", "one\n");
    assert!(is_made(&place.commit("m1", &["a.txt"]).await.unwrap()));
    assert_eq!((place.commits().await, place.status().await.as_str()), (1, "?? mine.txt\n"));
}

#[tokio::test]
async fn the_error_of_a_failing_hook_is_returned_and_nothing_changes() {
    let place = TestRepository::new().await;
    let hook = place.repository.common.join("hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho 'no commits on Sundays' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place.write("a.txt", "two\n");
    let before = place.status().await;
    let refused = place.commit("m1", &["a.txt"]).await.unwrap_err().to_string();
    assert!(refused.contains("no commits on Sundays"), "{refused}");
    assert_eq!((place.commits().await, place.status().await), (1, before));
    assert!(!place.repository.common.join("baton-commit.index").exists());
}

#[tokio::test]
async fn commits_of_one_worktree_wait_for_each_other() {
    let place = TestRepository::new().await;
    place.write("a.txt", "two\n");
    place.write("b.txt", "two\n");
    let (one, other) = tokio::join!(place.commit("m1", &["a.txt"]), place.commit("m2", &["b.txt"]));
    assert!(is_made(&one.unwrap()) && is_made(&other.unwrap()));
    assert_eq!((place.commits().await, place.status().await.as_str()), (3, ""));
}
