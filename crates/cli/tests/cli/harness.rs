//! A temporary project, home and data directory, and the program running in them.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::calls::Calls;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Directories of a program under test.
pub(crate) struct Harness {
    root: TempDir,
}

/// Output and exit code of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let root = TempDir::with_prefix("baton-cli-").unwrap();
        for name in ["project", "home", "data"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let harness = Self { root };
        std::fs::write(harness.project().join("README.md"), "# A project\n\nEnd of file.\n").unwrap();
        harness
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.path().join("project").canonicalize().unwrap()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Trusts the project, as `baton trust` does.
    pub(crate) fn trust(&self) {
        let list = serde_json::json!({ "directories": [self.project()] });
        std::fs::write(self.data().join("trusted.json"), list.to_string()).unwrap();
    }

    /// The program in the project, without the environment of the user who runs the tests.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_baton")), args)
    }

    #[expect(clippy::disallowed_methods, reason = "the program under test is a plain child of the test")]
    pub(crate) fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.root.path().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Like `command`, with the data directory of this world.
    pub(crate) fn with_data(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.arg("--data-dir").arg(self.data());
        command
    }

    /// Runs a command of the program to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ended {
        finish(self.command(args), "").await
    }

    /// Like `run`, with the data directory of this world.
    pub(crate) async fn run_with_data(&self, args: &[&str]) -> Ended {
        finish(self.with_data(args), "").await
    }

    /// Starts a server on a free port.
    pub(crate) async fn serve(&self) -> Server {
        Server::start(self.with_data(&["serve", "--port", "0"])).await
    }
}

/// Runs a program to its end with `input` on its standard input.
pub(crate) async fn finish(mut command: Command, input: &str) -> Ended {
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await.unwrap();
    }
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("the program ends").unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// The line it printed at start.
    pub(crate) line: String,
    pub(crate) url: String,
    pub(crate) calls: Calls,
}

impl Server {
    pub(crate) async fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.expect("the server listens").unwrap();
        let Some(line) = line else {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
            panic!("the server did not start: {said}");
        };
        let url = line.split_once("listening on ").expect("a line that says where").1.to_owned();
        let calls = Calls::new(&url);
        Self { child, line, url, calls }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// The text of `/metrics`.
    pub(crate) async fn metrics(&self) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut call = TcpStream::connect(address).await.unwrap();
        let head = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        call.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        call.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Waits for the exit. Returns its status, its standard error and the time it took.
    pub(crate) async fn ended(mut self) -> (ExitStatus, String, Duration) {
        let begun = Instant::now();
        let status = timeout(PATIENCE, self.child.wait()).await.expect("the server ends").unwrap();
        let took = begun.elapsed();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        (status, said, took)
    }

    pub(crate) async fn stop(self) {
        self.signal(Signal::TERM);
        let (status, said, _) = self.ended().await;
        assert!(status.success(), "{status}: {said}");
    }
}
