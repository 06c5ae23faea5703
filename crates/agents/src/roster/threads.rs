//! Which conversation of somebody else's agent a session is, so that it goes on after a restart.
//!
//! One small file for each session. What is lost here costs the agent its memory of a conversation and nothing else, so
//! whatever goes wrong is noted and not an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use protocol::SessionId;
use tokio::task::spawn_blocking;

/// The largest file that is read.
const MAX_BYTES: u64 = 64 * 1024;

/// How long the conversation of a session is remembered that nobody goes on with.
const RETENTION: Duration = Duration::from_hours(24 * 180);

/// What sessions are called elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Threads(Arc<PathBuf>);

impl Threads {
    /// They are kept in this directory.
    pub fn new(directory: PathBuf) -> Self {
        Self(Arc::new(directory))
    }

    /// What an agent calls a session, if it has seen it.
    pub async fn get(&self, agent: &str, session: &SessionId) -> Option<String> {
        let (path, agent) = (self.path(session), agent.to_owned());
        let read = spawn_blocking(move || read(&path)).await;
        let mut threads = noted(session, read.map_err(io::Error::other).flatten())?;
        threads.remove(&agent)
    }

    /// Remembers what an agent calls a session.
    pub async fn set(&self, agent: &str, session: &SessionId, thread: &str) {
        let (path, agent, thread) = (self.path(session), agent.to_owned(), thread.to_owned());
        let written = spawn_blocking(move || {
            let mut threads = read(&path).unwrap_or_default();
            threads.insert(agent, thread);
            write(&path, &threads)
        });
        noted(session, written.await.map_err(io::Error::other).flatten());
    }

    /// Forgets sessions that nobody went on with for a long time.
    pub fn sweep(&self, now: SystemTime) -> io::Result<()> {
        let entries = match fs::read_dir(&*self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let age = now.duration_since(entry.metadata()?.modified()?).unwrap_or_default();
            if age > RETENTION {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        // Ids come from clients, too: a file's name is made of nothing else.
        let name: String =
            session.as_str().chars().filter(|it| it.is_ascii_alphanumeric() || *it == '_').collect();
        self.0.join(format!("{name}.json"))
    }
}

fn noted<T>(session: &SessionId, result: io::Result<T>) -> Option<T> {
    result
        .map_err(|error| tracing::warn!(%session, %error, "what an agent calls a session could not be kept"))
        .ok()
}

fn read(path: &Path) -> io::Result<BTreeMap<String, String>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Ok(about) if about.len() > MAX_BYTES => return Err(io::Error::other("the file is too large")),
        _ => {}
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Whoever reads meanwhile sees the old file or the new one.
fn write(path: &Path, threads: &BTreeMap<String, String>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let draft = path.with_extension("draft");
    fs::write(&draft, serde_json::to_vec(threads)?)?;
    fs::rename(draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_has_one_name_with_each_agent() {
        let directory = tempfile::TempDir::new().unwrap();
        let threads = Threads::new(directory.path().join("threads"));
        let session = "ses_1".parse::<SessionId>().unwrap();
        assert_eq!(threads.get("codex", &session).await, None);
        threads.set("codex", &session, "one").await;
        threads.set("claude-code", &session, "two").await;
        threads.set("codex", &session, "three").await;
        assert_eq!(threads.get("codex", &session).await.as_deref(), Some("three"));
        assert_eq!(threads.get("claude-code", &session).await.as_deref(), Some("two"));
        let again = Threads::new(directory.path().join("threads"));
        assert_eq!(again.get("codex", &session).await.as_deref(), Some("three"));
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_not_known_and_can_be_written_again() {
        let directory = tempfile::TempDir::new().unwrap();
        let threads = Threads::new(directory.path().to_owned());
        let session = "ses_1".parse::<SessionId>().unwrap();
        fs::write(directory.path().join("ses_1.json"), "{").unwrap();
        assert_eq!(threads.get("codex", &session).await, None);
        threads.set("codex", &session, "one").await;
        assert_eq!(threads.get("codex", &session).await.as_deref(), Some("one"));
    }

    #[tokio::test]
    async fn old_ones_are_forgotten() {
        let directory = tempfile::TempDir::new().unwrap();
        let threads = Threads::new(directory.path().to_owned());
        threads.sweep(SystemTime::UNIX_EPOCH).unwrap();
        let session = "ses_1".parse::<SessionId>().unwrap();
        threads.set("codex", &session, "one").await;
        let written = fs::metadata(threads.path(&session)).unwrap().modified().unwrap();
        threads.sweep(written + RETENTION).unwrap();
        assert!(threads.get("codex", &session).await.is_some());
        threads.sweep(written + RETENTION * 2).unwrap();
        assert_eq!(threads.get("codex", &session).await, None);
    }
}
