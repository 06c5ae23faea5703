//! A Postgres cluster of its own for tests: in a temporary directory, on a Unix socket, and gone with the test.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Time for the cluster to accept connections.
const START: Duration = Duration::from_mins(1);

/// Makes a missing Postgres an error instead of a skipped test.
const VARIABLE: &str = "BATON_POSTGRES";

/// Runs Postgres until it ends or standard input is closed, which also happens when the test is killed.
const KEEPER: &str = r#"exec 3<&0; "$@" & server=$!
(cat <&3 > /dev/null; kill -QUIT "$server" 2> /dev/null) & wait "$server""#;

/// A running cluster. Dropping it stops it.
#[derive(Debug)]
pub struct Cluster {
    directory: TempDir,
    programs: PathBuf,
    /// The user and group that run Postgres, if this process is root: Postgres refuses to run as root.
    user: Option<(u32, u32)>,
    keeper: Option<Child>,
}

impl Cluster {
    /// Creates and starts a cluster. Returns `None`, and says so, if Postgres is not installed; that is an error if
    /// `BATON_POSTGRES` is `required`.
    #[expect(clippy::disallowed_methods, reason = "development only: the variable belongs to the tests")]
    pub fn start() -> Result<Option<Self>> {
        let Some(programs) = programs() else {
            let required = std::env::var_os(VARIABLE).is_some_and(|value| value == "required");
            ensure!(
                !required,
                "Postgres is not installed, and {VARIABLE}=required; install Debian's `postgresql`"
            );
            eprintln!("SKIPPED: Postgres is not installed, so this test has tested nothing");
            return Ok(None);
        };
        let directory = TempDir::with_prefix("baton-pg-")?;
        let user = if rustix::process::geteuid().is_root() { Some(unprivileged()?) } else { None };
        if let Some((user, group)) = user {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let mut cluster = Self { directory, programs, user, keeper: None };
        let mut init = cluster.command("initdb");
        init.args(["--username=baton", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"]);
        let made = init.arg(cluster.data()).output().context("cannot run initdb")?;
        ensure!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        // A role for tests of passwords; all others are trusted.
        let rules = cluster.data().join("pg_hba.conf");
        let guarded = format!("local all guarded scram-sha-256\n{}", fs::read_to_string(&rules)?);
        fs::write(&rules, guarded)?;
        cluster.run()?;
        Ok(Some(cluster))
    }

    /// Starts the server of an existing cluster, for instance after [`Cluster::kill`], and waits until it answers.
    pub fn run(&mut self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < START {
            let mut keeper = self.spawn()?;
            // It ends at once while the last sessions of a killed server still run.
            while keeper.try_wait()?.is_none() && begun.elapsed() < START {
                let ready = self.command("pg_isready").args(["-q", "-h"]).arg(self.socket()).status()?;
                if ready.success() {
                    self.keeper = Some(keeper);
                    return Ok(());
                }
                pause();
            }
            drop(keeper.stdin.take());
            keeper.wait()?;
        }
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        bail!("Postgres did not start: {log}")
    }

    fn spawn(&self) -> Result<Child> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.path().join("log"))?;
        let mut keeper = self.command_of(Path::new("/bin/sh"));
        keeper.args(["-c", KEEPER, "keeper"]).arg(self.programs.join("postgres"));
        keeper.arg("-D").arg(self.data()).arg("-k").arg(self.socket());
        for setting in ["listen_addresses=", "fsync=off", "max_connections=60", "shared_buffers=16MB"] {
            keeper.args(["-c", setting]);
        }
        keeper.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        keeper.spawn().context("cannot start Postgres")
    }

    /// Kills the server and all its sessions with SIGKILL, as the loss of its machine would. Returns when they are gone.
    pub fn kill(&mut self) -> Result<()> {
        let file = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let pid: i32 = file.lines().next().context("an empty postmaster.pid")?.trim().parse()?;
        let server = Pid::from_raw(pid).context("no such process")?;
        // A stopped server starts no further session.
        kill_process(server, Signal::STOP)?;
        let sessions = children(pid);
        kill_process(server, Signal::KILL)?;
        for session in sessions.iter().copied().filter_map(Pid::from_raw) {
            let _ = kill_process(session, Signal::KILL);
        }
        let begun = Instant::now();
        while sessions.iter().any(|pid| is_alive(*pid)) {
            ensure!(begun.elapsed() < START, "the sessions of a killed Postgres did not end");
            pause();
        }
        self.stop();
        Ok(())
    }

    /// Stops the server without a word to its clients.
    pub fn stop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }

    /// Creates a database and returns its URL.
    pub fn database(&self, name: &str) -> Result<String> {
        let mut create = self.command("createdb");
        let made = create.args(["-U", "baton", "-h"]).arg(self.socket()).arg(name).output()?;
        ensure!(made.status.success(), "createdb failed: {}", String::from_utf8_lossy(&made.stderr));
        Ok(self.url(name))
    }

    /// The URL of a database.
    pub fn url(&self, name: &str) -> String {
        let socket = self.socket().to_string_lossy().replace('/', "%2F");
        format!("postgres://baton@{socket}/{name}")
    }

    /// The directory of the socket.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        self.command_of(&self.programs.join(program))
    }

    #[expect(clippy::disallowed_methods, reason = "development only: a plain child of the test")]
    fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The child processes of a process.
fn children(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Returns false if a process has ended, even if its parent has not noticed yet.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[expect(clippy::disallowed_methods, reason = "development only: Postgres does not tell when it is ready")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// The directory of Postgres's programs: that of `initdb` on PATH, or Debian's.
#[expect(clippy::disallowed_methods, reason = "development only")]
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let places = std::env::split_paths(&path).chain(debian.map(|version| version.path().join("bin")));
    // Resolves links, because the other programs may be beside the real file only.
    let real = places.filter_map(|place| place.join("initdb").canonicalize().ok());
    let mut found = real.filter_map(|initdb| initdb.parent().map(Path::to_path_buf));
    found.find(|place| place.join("postgres").exists() && place.join("createdb").exists())
}

/// User and group of Debian's user for Postgres, or of `nobody`.
fn unprivileged() -> Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    for name in ["postgres", "nobody"] {
        let Some(line) = users.lines().find(|line| line.split(':').next() == Some(name)) else { continue };
        let mut fields = line.split(':').skip(2);
        if let (Some(user), Some(group)) = (fields.next(), fields.next()) {
            return Ok((user.parse()?, group.parse()?));
        }
    }
    bail!("no user can run Postgres, which refuses to run as root")
}
