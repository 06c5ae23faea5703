//! Keys and logins, in `auth.json`.
//!
//! The form is OpenCode's: a map from a provider to a key (`api`), a login (`oauth`) or a token that an
//! organisation's own site hands out (`wellknown`). The file is in Baton's data directory. As long as there is
//! none, OpenCode's own (`~/.local/share/opencode/auth.json`) is read instead, and never written; the first
//! change takes its entries over, so that no login disappears by adding another.
//!
//! `OPENCODE_AUTH_CONTENT` holds the same as text and goes before both files; if it is not understood it is
//! passed by with a warning. Changes always go to the file.
//!
//! The file is for its owner only (0600). If others may read it, that is put right, or, for OpenCode's, told.
//! A change is written beside the file and then put in its place, so a crash leaves the old or the new one.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use protocol::{config::Secret, login::Login};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Environment, Trace,
    problem::{Position, Problem, Source},
    replace::{OWNER_ONLY, replace},
    walk,
};

/// The file's name, Baton's and OpenCode's.
const FILE: &str = "auth.json";

/// The variable that goes before the files.
const VARIABLE: &str = "OPENCODE_AUTH_CONTENT";

/// The largest file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// A login as it is written into the file, secrets and all.
pub fn spelled(login: &Login) -> Value {
    match login {
        Login::Api { key, metadata } => {
            let mut written = json!({ "type": "api", "key": key.reveal() });
            if !metadata.is_empty() {
                put(&mut written, "metadata", Some(json!(metadata.0)));
            }
            written
        }
        Login::Oauth { refresh, access, expires, account_id, enterprise_url } => {
            let mut written = json!({
                "type": "oauth", "refresh": refresh.reveal(), "access": access.reveal(), "expires": expires,
            });
            put(&mut written, "accountId", account_id.as_deref().map(Value::from));
            put(&mut written, "enterpriseUrl", enterprise_url.as_deref().map(Value::from));
            written
        }
        Login::WellKnown { key, token } => {
            json!({ "type": "wellknown", "key": key, "token": token.reveal() })
        }
    }
}

fn put(written: &mut Value, name: &str, value: Option<Value>) {
    if let (Some(fields), Some(value)) = (written.as_object_mut(), value) {
        fields.insert(name.to_owned(), value);
    }
}

/// What is known about keys and logins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Auth {
    /// By provider.
    pub entries: BTreeMap<String, Login>,
    /// Where they are from; `None` if there are no files.
    pub source: Option<Source>,
    /// What is odd.
    pub warnings: Vec<Problem>,
}

/// Keys and logins cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is there, but cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a JSON map. It is left as it is.
    #[error("{0}")]
    Unreadable(Problem),
    /// Somebody else is changing it at this moment.
    #[error("another process is changing {}; try again", .0.display())]
    Busy(PathBuf),
}

/// The file.
#[derive(Clone)]
pub struct AuthFile {
    path: PathBuf,
    /// OpenCode's, read as long as there is none.
    fallback: Option<PathBuf>,
    content: Option<Secret>,
}

impl fmt::Debug for AuthFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AuthFile")
            .field("path", &self.path)
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}

/// A file and what is in it, as it is written: what is not understood is not lost.
struct Stored {
    path: PathBuf,
    written: Map<String, Value>,
}

impl AuthFile {
    /// The file in Baton's data directory.
    pub fn new(environment: &Environment, data: &Path) -> Self {
        let fallback = environment.opencode_data_dir().map(|directory| directory.join(FILE));
        Self { path: data.join(FILE), fallback, content: environment.text(VARIABLE).map(Secret::new) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes how the files look that [`read`](Self::read) reads.
    pub fn trace(&self, trace: &mut Trace) {
        trace.note(&self.path);
        self.fallback.iter().for_each(|path| trace.note(path));
    }

    /// What is known now.
    pub fn read(&self) -> Result<Auth, Error> {
        let mut warnings = Vec::new();
        if let Some(content) = &self.content {
            let source = Source::Variable(VARIABLE);
            match serde_json::from_str::<Map<String, Value>>(content.reveal()) {
                Ok(written) => return Ok(understood(written, Some(source), warnings)),
                Err(_) => warnings.push(Problem::about(
                    &source,
                    None,
                    "the text is not a JSON map, so it is passed by",
                )),
            }
        }
        match self.stored(&mut warnings)? {
            Some(stored) => Ok(understood(stored.written, Some(Source::File(stored.path)), warnings)),
            None => Ok(understood(Map::new(), None, warnings)),
        }
    }

    /// Sets the entry of a provider.
    pub fn set(&self, provider: &str, login: &Login) -> Result<(), Error> {
        self.change(|written| {
            // A site's address is the same with and without a slash at its end.
            let plain = provider.trim_end_matches('/');
            written.retain(|name, _| name.trim_end_matches('/') != plain);
            written.insert(plain.to_owned(), spelled(login));
        })
    }

    /// Removes the entry of a provider.
    pub fn remove(&self, provider: &str) -> Result<(), Error> {
        let plain = provider.trim_end_matches('/');
        self.change(|written| written.retain(|name, _| name.trim_end_matches('/') != plain))
    }

    /// What is in Baton's file, or else in OpenCode's.
    fn stored(&self, warnings: &mut Vec<Problem>) -> Result<Option<Stored>, Error> {
        if let Some(written) = written(&self.path)? {
            self.protect(warnings)?;
            return Ok(Some(Stored { path: self.path.clone(), written }));
        }
        let Some(fallback) = &self.fallback else { return Ok(None) };
        let written = match written(fallback) {
            Ok(Some(written)) => written,
            Ok(None) => return Ok(None),
            // It is somebody else's file, and so no reason to fail.
            Err(error) => {
                let message = format!("OpenCode's keys are passed by: {error}");
                warnings.push(Problem::about(&Source::File(fallback.clone()), None, message));
                return Ok(None);
            }
        };
        if let Some(mode) = too_open(fallback) {
            let message = format!(
                "others can read this file (its mode is {mode:o}); it is OpenCode's, so it is left so"
            );
            warnings.push(Problem::about(&Source::File(fallback.clone()), None, message));
        }
        Ok(Some(Stored { path: fallback.clone(), written }))
    }

    /// Makes sure that the file is for its owner only.
    fn protect(&self, warnings: &mut Vec<Problem>) -> Result<(), Error> {
        if let Some(mode) = too_open(&self.path) {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(OWNER_ONLY)).map_err(self.failed())?;
            let message =
                format!("others could read this file (its mode was {mode:o}); now only its owner can");
            warnings.push(Problem::about(&Source::File(self.path.clone()), None, message));
        }
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), Error> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(self.failed())?;
        let mut open = fs::OpenOptions::new();
        open.write(true).create(true).truncate(false).mode(OWNER_ONLY);
        let lock = open.open(self.path.with_extension("lock")).map_err(self.failed())?;
        // Released when the file is closed, however this ends.
        lock.try_lock().map_err(|_| Error::Busy(self.path.clone()))?;
        let stored = self.stored(&mut Vec::new())?;
        let mut written = stored.map(|stored| stored.written).unwrap_or_default();
        change(&mut written);
        let text = serde_json::to_vec_pretty(&written).map_err(io::Error::from).map_err(self.failed())?;
        replace(&self.path, &text, OWNER_ONLY).map_err(self.failed())
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error {
        failed(&self.path)
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::File { path: path.to_owned(), source }
}

/// What is in a file, if there is one.
fn written(path: &Path) -> Result<Option<Map<String, Value>>, Error> {
    let Some(text) = walk::read(path, MAX_BYTES).map_err(failed(path))? else { return Ok(None) };
    if text.trim().is_empty() {
        return Ok(Some(Map::new()));
    }
    serde_json::from_str(&text).map(Some).map_err(|error| {
        // Only where it went wrong: what serde has to say might repeat a key.
        let at = Position { line: error.line(), column: error.column() };
        Error::Unreadable(Problem::about(
            &Source::File(path.to_owned()),
            Some(at),
            "the text is not a JSON map",
        ))
    })
}

/// The mode of a file that others than its owner can read or change.
fn too_open(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

fn understood(written: Map<String, Value>, source: Option<Source>, mut warnings: Vec<Problem>) -> Auth {
    let mut entries = BTreeMap::new();
    for (provider, value) in written {
        if let Ok(entry) = Login::deserialize(&value) {
            entries.insert(provider.trim_end_matches('/').to_owned(), entry);
        } else {
            let message = format!("the entry of `{provider}` is not understood, so it is passed by");
            let source = source.as_ref().unwrap_or(&Source::Merged);
            warnings.push(Problem { key: provider, ..Problem::about(source, None, message) });
        }
    }
    Auth { entries, source, warnings }
}
