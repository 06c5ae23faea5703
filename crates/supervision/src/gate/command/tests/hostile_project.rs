//! A throw-away project that tries to make harmless commands do more, and canaries that show whether it succeeded.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use workspace::files::Root;
use workspace::process::{self, Exit, Sandbox, Spec, Support};

use crate::sealed;

/// Timeout of setting up a project.
const SETUP_DEADLINE: Duration = Duration::from_mins(2);

/// A project with a repository, a submodule, a bare repository and a `.git` file. In all of them git would run
/// `evil`, which writes a file, in each way that the product promises to switch off.
const SETUP: &str = r#"
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
printf '#!/bin/sh\n: >"$(dirname "$0")/pwned"\ncat "$1" 2>/dev/null\nexit 0\n' >evil
chmod +x evil
evil="$PWD/evil"
repository() {
    git init -q -b main --template= "$1"
    git -C "$1" config user.name Test
    git -C "$1" config user.email test@example.com
}
hostile() {
    for setting in core.fsmonitor core.pager core.sshCommand core.askPass core.editor gpg.program \
        credential.helper alias.status alias.log pager.log pager.diff pager.status pager.branch pager.show; do
        git -C "$1" config "$setting" "$evil"
    done
    git -C "$1" config log.showSignature true
    git -C "$1" config status.submoduleSummary true
    git -C "$1" config diff.submodule log
    git -C "$1" config log.diffMerges remerge
    git -C "$1" config merge.odd.driver "$evil"
    hooks="$(git -C "$1" rev-parse --absolute-git-dir)/hooks"
    mkdir -p "$hooks"
    for hook in post-index-change fsmonitor-watchman pre-commit post-checkout reference-transaction; do
        cp evil "$hooks/$hook"
    done
}
repository .
mkdir -p src x/y 'a b'
echo 'm merge=odd' >.gitattributes
for file in a same src/b x/y/c 'a b/d' ./-la ./--output=globbed './a;touch pwned'; do echo one >"$file"; done
echo KEY=1 >.env
repository sub && echo one >sub/a && git -C sub add . && git -C sub commit -q -m first
printf '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n' >.gitmodules
git add . 2>/dev/null && git commit -q -m first
echo two >>a && git commit -q -a -m 'second --output=pwned $(touch pwned)'
echo three >>a && git stash -q
git branch 'other' && git tag v1 && git update-ref refs/remotes/origin/main HEAD
signature='gpgsig -----BEGIN PGP SIGNATURE-----\n \n eA==\n -----END PGP SIGNATURE-----\n'
git cat-file commit HEAD | sed "s/^committer .*/&\n${signature%??}/" | git hash-object -t commit -w --stdin >signed
git branch signed "$(cat signed)" && rm signed
git checkout -q -b left HEAD~1 && echo left >m && git add m && git commit -q -m left
git checkout -q -b right HEAD~1 && echo right >m && git add m && git commit -q -m right
git merge -q left >/dev/null || echo both >m && git add m && git commit -q -m merge
git checkout -q main && git merge -q -m all right
echo four >>a && echo two >>src/b && git add src/b && echo two >>sub/a && echo new >untracked
touch -d @1000000000 same sub/a
git init -q --bare --template= bare
git -C bare config core.bare false && git -C bare config core.worktree "$PWD/src"
mkdir nested && echo 'gitdir: ../bare' >nested/.git
hostile . && hostile sub && GIT_DIR="$PWD/bare" hostile bare
"#;

/// Drivers that git still runs, because no setting can switch off those that a repository names: only the sealed
/// sandbox keeps them from writing.
const DRIVERS: &str = r#"
set -e
evil="$PWD/evil"
printf '* diff=odd filter=odd merge=odd\n' >.gitattributes
git config diff.odd.textconv "$evil"
git config filter.odd.clean "$evil"
git config diff.external "$evil"
rm -f pwned
"#;

/// The sandbox of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// As in the product.
    Sealed,
    /// With the product's environment, in a sandbox that may write to the whole throw-away directory and connect.
    /// Shows mistakes of the judge that the seal would hide.
    Loose,
}

/// The metadata of a file. A change of its contents shows in the modification time.
type State = (u32, u64, u64, u64, (i64, i64), (i64, i64));

pub(super) struct HostileProject {
    /// Holds the project, a home directory and a directory beside them.
    outer: TempDir,
    top: PathBuf,
    run: Run,
    root: Root,
    tcp: TcpListener,
    unix: UnixListener,
    before: BTreeMap<PathBuf, State>,
}

impl HostileProject {
    pub(super) async fn new(run: Run) -> Self {
        let outer = TempDir::new().unwrap();
        let top = outer.path().canonicalize().unwrap();
        let project = top.join("project");
        for directory in ["project", "home", "outside"] {
            fs::create_dir(top.join(directory)).unwrap();
            fs::write(top.join(directory).join("canary"), "as it was").unwrap();
        }
        if can_run() {
            set_up(&project, SETUP).await;
        }
        if can_run() && run == Run::Sealed {
            set_up(&project, DRIVERS).await;
        }
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let unix = UnixListener::bind(project.join("socket")).unwrap();
        unix.set_nonblocking(true).unwrap();
        let before = states(&top);
        Self { root: Root::new(&project).unwrap(), outer, top, run, tcp, unix, before }
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Runs a line and returns everything that it changed or connected to.
    pub(super) async fn damage(&self, line: &str, deadline: Duration) -> Vec<String> {
        let port = self.tcp.local_addr().unwrap().port();
        let line = line.replace("PORT", &port.to_string());
        let mut spec = Spec::shell(&line, self.root.directory(), deadline);
        spec.environment =
            vec![("HOME".into(), self.top.join("home").into()), ("GIT_CONFIG_NOSYSTEM".into(), "1".into())];
        let sealed = sealed::prepare(&mut spec, Support::probe());
        spec.sandbox = Some(match self.run {
            Run::Sealed => sealed,
            Run::Loose => {
                Sandbox { writable: vec![self.top.clone()], network: true, sealed: false, ..sealed }
            }
        });
        process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
        let mut damage = differences(&self.before, &states(&self.top));
        damage.extend(self.tcp.accept().is_ok().then(|| "connected by TCP".to_owned()));
        damage.extend(self.unix.accept().is_ok().then(|| "connected to the Unix socket".to_owned()));
        damage
    }

    /// Returns true if the throw-away directory still exists, so that a broken set-up does not pass for an
    /// unchanged one.
    pub(super) fn is_intact(&self) -> bool {
        self.outer.path().join("outside/canary").exists() && (!can_run() || self.before.len() > 50)
    }
}

/// Returns true if lines can be run: the kernel can seal them, and bash exists.
pub(super) fn can_run() -> bool {
    Support::probe() >= Support::Sealed && Path::new("/bin/bash").exists()
}

async fn set_up(project: &Path, script: &str) {
    let spec = Spec::shell(script, project, SETUP_DEADLINE);
    let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
}

/// Returns the state of a directory and everything below it.
fn states(directory: &Path) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let state = (metadata.mode(), metadata.ino(), metadata.nlink(), metadata.len(), modified, changed);
        found.insert(path, state);
    }
    found
}

fn differences(before: &BTreeMap<PathBuf, State>, after: &BTreeMap<PathBuf, State>) -> Vec<String> {
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    let gone = gone.map(|path| format!("removed {}", path.display()));
    let other = after.iter().filter_map(|(path, state)| match before.get(path) {
        None => Some(format!("created {}", path.display())),
        Some(old) if old != state => Some(format!("changed {}", path.display())),
        Some(_) => None,
    });
    gone.chain(other).collect()
}
