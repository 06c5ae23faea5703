//! A program that keeps running and exchanges messages with the server.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::guard::{self, Watched};
use super::tree::{self, Tree};
use super::{CHUNK, DRAIN, Error, Exit, GRACE, Output, QUIET, REAP, Spec, command, exit, launch};

/// A running program whose standard input and output belong to the caller. Its standard error is read
/// continuously, so that the program never blocks on it, and kept within limits. Dropping the value kills the
/// whole process tree at once; [`Companion::stop`] sends `SIGTERM` first. The program never outlives the
/// server, however the server ends.
#[derive(Debug)]
pub struct Companion {
    program: String,
    child: Child,
    tree: Tree,
    errors: Arc<Mutex<Output>>,
    reading: JoinHandle<()>,
    /// Dropped after the tree, which a living server ends itself.
    #[cfg_attr(not(test), expect(dead_code, reason = "dropping it takes the program off the guard's list"))]
    pub(super) watched: Option<Watched>,
}

/// Pipes to a program's standard input and output.
#[derive(Debug)]
pub struct Pipes {
    /// Standard input of the program.
    pub input: ChildStdin,
    /// Standard output of the program.
    pub output: ChildStdout,
}

/// Starts a program that keeps running. The spec's deadline, spool and muting do not apply: the program runs
/// until it ends or is ended, and the output limits apply to its standard error.
pub fn start(spec: &Spec) -> Result<(Companion, Pipes), Error> {
    let program = spec.name();
    let failed = |source| Error::Start { program: program.clone(), source };
    let mark = tree::mark();
    let mut command = command(spec, &mark);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut child = launch(spec, &mut command)?;
    let watched = guard::watch(child.id(), &mark);
    let tree = Tree::new(child.id(), mark);
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed(std::io::Error::other("the child process has no pipes")));
    };
    let kept = Arc::new(Mutex::new(Output::new(spec.bounds)));
    let reading = tokio::spawn(keep(errors, Arc::clone(&kept)));
    Ok((Companion { program, child, tree, errors: kept, reading, watched }, Pipes { input, output }))
}

impl Companion {
    /// Process id, until the process was waited for.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Captured standard error.
    pub fn errors(&self) -> Output {
        self.errors.lock().clone()
    }

    /// Waits for the program to exit. May be called repeatedly. Its descendants may still run.
    pub async fn exited(&mut self) -> Result<Exit, Error> {
        let ended = self.child.wait().await;
        ended.map(exit).map_err(|source| Error::Watch { program: self.program.clone(), source })
    }

    /// Like [`Companion::exited`], and reads the rest of its standard error.
    pub async fn wait(&mut self) -> Result<Exit, Error> {
        let exit = self.exited().await?;
        if !self.reading.is_finished() {
            // A grandchild may hold the pipe open; the program's own output has arrived by then.
            let _ = timeout(DRAIN, &mut self.reading).await;
        }
        Ok(exit)
    }

    /// Ends the program and all its descendants: `SIGTERM`, then `SIGKILL` after [`GRACE`]. Callers should
    /// close the pipes first, because many programs end when their input ends.
    pub async fn stop(mut self) {
        self.tree.ask();
        let end = Instant::now() + GRACE;
        let mut exited = false;
        while Instant::now() < end && !(exited && self.tree.is_gone()) {
            tokio::select! {
                biased;
                _ = self.child.wait(), if !exited => exited = true,
                () = sleep_until((Instant::now() + QUIET).min(end)) => {}
            }
        }
        self.tree.kill();
        if timeout(REAP, self.child.wait()).await.is_err() {
            tracing::warn!(pid = self.child.id(), "a process did not end after SIGKILL");
        }
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn keep(mut errors: ChildStderr, kept: Arc<Mutex<Output>>) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or_default();
        kept.lock().push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::super::Bounds;
    use super::super::tests::lives;
    use super::*;

    fn shell(command: &str) -> (Companion, Pipes, TempDir) {
        let directory = TempDir::new().unwrap();
        let mut spec = Spec::shell(command, directory.path(), Duration::MAX);
        spec.bounds = Bounds { head: 8, tail: 8 };
        let (companion, pipes) = start(&spec).unwrap();
        (companion, pipes, directory)
    }

    async fn line(output: &mut BufReader<ChildStdout>) -> String {
        let mut line = String::new();
        timeout(Duration::from_secs(20), output.read_line(&mut line)).await.unwrap().unwrap();
        line.trim().to_owned()
    }

    #[tokio::test]
    async fn it_answers_its_input() {
        let (mut companion, pipes, _directory) = shell("while read line; do echo \"<$line>\"; done; exit 3");
        let Pipes { mut input, output } = pipes;
        let mut output = BufReader::new(output);
        for word in ["one", "two"] {
            input.write_all(format!("{word}\n").as_bytes()).await.unwrap();
            assert_eq!(line(&mut output).await, format!("<{word}>"));
        }
        drop(input);
        for _ in 0..2 {
            assert_eq!(companion.wait().await.unwrap(), Exit::Code(3));
        }
    }

    #[tokio::test]
    async fn a_flood_of_errors_neither_blocks_it_nor_exceeds_the_limits() {
        let command = "printf 'begin'; printf begin >&2; head -c 3000000 /dev/zero >&2; printf end >&2; echo";
        let (mut companion, pipes, _directory) = shell(command);
        assert_eq!(line(&mut BufReader::new(pipes.output)).await, "begin");
        assert_eq!(companion.wait().await.unwrap(), Exit::Code(0));
        let errors = companion.errors();
        assert_eq!(errors.total(), 3_000_008);
        assert!(errors.text().starts_with("begin") && errors.text().ends_with("end"), "{}", errors.text());
        assert!(errors.text().len() < 100);
    }

    #[tokio::test]
    async fn the_whole_tree_ends_with_it() {
        let command = "trap '' TERM; setsid sleep 600 & echo $!; sleep 600 & echo $!; echo $$; wait";
        for asked in [true, false] {
            let (companion, pipes, _directory) = shell(command);
            let mut output = BufReader::new(pipes.output);
            let processes = [line(&mut output).await, line(&mut output).await, line(&mut output).await];
            assert!(processes.iter().all(|id| lives(id)));
            if asked {
                companion.stop().await;
            } else {
                drop(companion);
            }
            assert!(!processes.iter().any(|id| lives(id)), "asked: {asked}");
        }
    }

    #[tokio::test]
    async fn a_missing_program_cannot_be_started() {
        let spec = Spec::new("/nonexistent/program", "/", Duration::MAX);
        let error = start(&spec).unwrap_err().to_string();
        assert!(error.starts_with("cannot start `/nonexistent/program`: "), "{error}");
    }
}
