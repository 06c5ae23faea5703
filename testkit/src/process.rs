//! The real server, as a child process in a directory of its own.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// Time for a server to start listening.
const START: Duration = Duration::from_secs(20);

/// Time for a process to stop after SIGSTOP.
const FREEZE: Duration = Duration::from_secs(5);

/// The directories of a server, which survive its restarts.
#[derive(Debug)]
pub struct Home {
    root: TempDir,
    program: PathBuf,
    project: PathBuf,
    data: PathBuf,
    variables: Vec<(OsString, OsString)>,
    errors: Option<PathBuf>,
}

impl Home {
    /// Creates a fresh home for a program.
    pub fn new(program: impl Into<PathBuf>) -> Result<Self> {
        let root = TempDir::with_prefix("baton-test-")?;
        for name in ["project", "data", "home"] {
            std::fs::create_dir(root.path().join(name))?;
        }
        std::fs::write(root.path().join("project/README.md"), "# A project\n\nFor tests.\n")?;
        let (project, data) = (root.path().join("project"), root.path().join("data"));
        Ok(Self { root, program: program.into(), project, data, variables: Vec::new(), errors: None })
    }

    /// Uses another working directory, for instance that of another home.
    #[must_use]
    pub fn with_project(mut self, project: impl Into<PathBuf>) -> Self {
        self.project = project.into();
        self
    }

    /// Uses another data directory, for instance on another disk.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<PathBuf>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets an environment variable for all later starts.
    pub fn set_variable(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.push((name.into(), value.into()));
    }

    /// Appends the server's standard error to a file of the home, for [`Home::errors`].
    #[must_use]
    pub fn with_errors_kept(mut self) -> Self {
        self.errors = Some(self.root.path().join("stderr.log"));
        self
    }

    /// Everything that the server has printed to standard error so far; empty without [`Home::with_errors_kept`].
    pub fn errors(&self) -> String {
        let bytes = self.errors.as_ref().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The directory that contains everything; removed with the home.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Keeps the directory for inspection and returns it.
    pub fn keep(self) -> PathBuf {
        self.root.keep()
    }

    /// The server's working directory.
    pub fn project(&self) -> PathBuf {
        self.project.clone()
    }

    /// The user's configuration directory, which may not exist.
    pub fn configuration(&self) -> PathBuf {
        self.root.path().join("home/config/opencode")
    }

    /// The server's data directory.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Starts the server and waits until it reports that it listens.
    pub async fn start(&self) -> Result<Baton> {
        self.start_with(&[]).await
    }

    /// Starts the server with more arguments and waits until it reports that it listens.
    pub async fn start_with(&self, arguments: &[&str]) -> Result<Baton> {
        let mut command = self.command();
        command.args(["serve", "--hostname", "127.0.0.1", "--port", "0", "--data-dir"]).arg(self.data());
        command.args(arguments);
        self.launch(command, "listening on ").await
    }

    /// Starts a chat gateway in front of a server and waits until it reports that it is ready.
    pub async fn gateway(&self, server: &str) -> Result<Baton> {
        let mut command = self.command();
        command.args(["channels", "--log-level", "warn", "--attach", server, "--data-dir"]);
        command.arg(self.root.path().join("channels"));
        self.launch(command, " for ").await
    }

    /// Starts a process and waits for the line that contains `mark`, followed by an address.
    async fn launch(&self, mut command: Command, mark: &str) -> Result<Baton> {
        let begun = Instant::now();
        if let Some(path) = &self.errors {
            command.stderr(OpenOptions::new().create(true).append(true).open(path)?);
        }
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        let out = child.stdout.take().context("the process has no standard output")?;
        let mut lines = BufReader::new(out).lines();
        let url = tokio::time::timeout(START, async {
            while let Some(line) = lines.next_line().await? {
                if let Some((_, url)) = line.split_once(mark) {
                    return Ok(url.trim().to_owned());
                }
            }
            bail!("the process ended before it was ready")
        })
        .await
        .context("the process was not ready in time")??;
        // Reads the rest of the output, so that a full pipe does not block the process.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Baton { child, url, started_in: begun.elapsed() })
    }

    #[expect(clippy::disallowed_methods, reason = "the server under test is a plain child of the test")]
    fn command(&self) -> Command {
        let home = self.root.path().join("home");
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.project())
            .env("HOME", &home)
            .env("XDG_STATE_HOME", home.join("state"))
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env_remove("BATON_PASSWORD")
            .env_remove("OPENCODE_SERVER_PASSWORD")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Total size of the files below the data directory.
    pub fn stored_bytes(&self) -> u64 {
        fn below(path: &Path) -> u64 {
            let Ok(entries) = std::fs::read_dir(path) else { return 0 };
            entries
                .flatten()
                .map(|entry| match entry.metadata() {
                    Ok(meta) if meta.is_dir() => below(&entry.path()),
                    Ok(meta) => meta.len(),
                    Err(_) => 0,
                })
                .sum()
        }
        below(&self.data())
    }
}

/// A running server, or gateway. Dropping it kills it.
#[derive(Debug)]
pub struct Baton {
    child: Child,
    /// The address it listens on; for a gateway, the address of its server.
    pub url: String,
    /// Time from the start of the process to its listening line.
    pub started_in: Duration,
}

impl Baton {
    fn pid(&self) -> Result<Pid> {
        let pid = self.child.id().context("the server has ended")?;
        Pid::from_raw(i32::try_from(pid)?).context("no such process")
    }

    /// Kills it as a power cut would, and waits until it has ended.
    pub async fn kill(mut self) -> Result<()> {
        kill_process(self.pid()?, Signal::KILL)?;
        self.child.wait().await?;
        Ok(())
    }

    /// Stops it with SIGSTOP until [`Baton::thaw`], and waits until the kernel reports that it has stopped.
    pub async fn freeze(&self) -> Result<()> {
        let pid = self.pid()?;
        kill_process(pid, Signal::STOP)?;
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        tokio::time::timeout(FREEZE, async {
            // The state follows the name, which is in parentheses.
            while !std::fs::read_to_string(&path)?
                .rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        })
        .await
        .context("the process did not stop in time")?
    }

    /// Resumes it after [`Baton::freeze`].
    pub fn thaw(&self) -> Result<()> {
        Ok(kill_process(self.pid()?, Signal::CONT)?)
    }

    /// Sends SIGTERM and waits for the end; returns the exit status and the time it took.
    pub async fn terminate(mut self) -> Result<(std::process::ExitStatus, Duration)> {
        let begun = Instant::now();
        kill_process(self.pid()?, Signal::TERM)?;
        let status = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await??;
        Ok((status, begun.elapsed()))
    }

    /// Waits until it ends by itself.
    pub async fn ended(mut self) -> Result<std::process::ExitStatus> {
        Ok(tokio::time::timeout(START, self.child.wait()).await??)
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?.as_raw_nonzero()))?;
        let line =
            status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS in the status")?;
        let kilobytes: u64 = line.split_whitespace().nth(1).context("an empty VmRSS")?.parse()?;
        Ok(kilobytes * 1024)
    }
}
