//! Keys and logins, in `auth.json`.
//!
//! The format is OpenCode's: a map from a provider to a key (`api`), a login (`oauth`) or a token issued by an
//! organisation's own site (`wellknown`). The file is in Baton's data directory. While it does not exist,
//! OpenCode's own (`~/.local/share/opencode/auth.json`) is read instead, and never written; the first change copies
//! its entries, so that adding a login loses none.
//!
//! `OPENCODE_AUTH_CONTENT` contains the same JSON as text and takes precedence over both files; if it is invalid it
//! is ignored with a warning. Changes always go to the file.
//!
//! Only the file's owner may read it (0600). If others may, Baton corrects the mode, or, for OpenCode's file,
//! warns. A change is written to a second file that then replaces the first, so a crash leaves the old or the new
//! one.

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

/// The file name, both Baton's and OpenCode's.
const FILE: &str = "auth.json";

/// The variable that takes precedence over the files.
const VARIABLE: &str = "OPENCODE_AUTH_CONTENT";

/// Maximum size of the file.
const MAX_BYTES: u64 = 1024 * 1024;

/// A login in the file's format, including secrets.
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

/// The known keys and logins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Auth {
    pub entries: BTreeMap<String, Login>,
    /// The variable or file that was read; `None` if there is none.
    pub source: Option<Source>,
    pub warnings: Vec<Problem>,
}

/// An error while reading or changing keys and logins.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file exists but cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The file is not a JSON map. It is left unchanged.
    #[error("{0}")]
    Unreadable(Problem),
    /// Another process holds the lock for changing the file.
    #[error("another process is changing {}; try again", .0.display())]
    Busy(PathBuf),
}

#[derive(Clone)]
pub struct AuthFile {
    path: PathBuf,
    /// OpenCode's file, read while `path` does not exist.
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

/// A file and its JSON, including entries that this version does not understand, so that a change keeps them.
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records the state of the files that [`read`](Self::read) reads.
    pub fn trace(&self, trace: &mut Trace) {
        trace.note(&self.path);
        self.fallback.iter().for_each(|path| trace.note(path));
    }

    /// Reads all keys and logins.
    pub fn read(&self) -> Result<Auth, Error> {
        let mut warnings = Vec::new();
        if let Some(content) = &self.content {
            let source = Source::Variable(VARIABLE);
            match serde_json::from_str::<Map<String, Value>>(content.reveal()) {
                Ok(written) => return Ok(understood(written, Some(source), warnings)),
                Err(_) => {
                    warnings.push(Problem::about(&source, None, "the text is not a JSON map; ignoring it"));
                }
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
            // A site's address is the same with and without a trailing slash.
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

    /// Reads Baton's file, or OpenCode's if Baton's does not exist.
    fn stored(&self, warnings: &mut Vec<Problem>) -> Result<Option<Stored>, Error> {
        if let Some(written) = written(&self.path)? {
            self.protect(warnings)?;
            return Ok(Some(Stored { path: self.path.clone(), written }));
        }
        let Some(fallback) = &self.fallback else { return Ok(None) };
        let written = match written(fallback) {
            Ok(Some(written)) => written,
            Ok(None) => return Ok(None),
            // An unreadable file of OpenCode's must not make Baton fail.
            Err(error) => {
                let message = format!("ignoring OpenCode's keys: {error}");
                warnings.push(Problem::about(&Source::File(fallback.clone()), None, message));
                return Ok(None);
            }
        };
        if let Some(mode) = too_open(fallback) {
            let message = format!(
                "other users can read this file (its mode is {mode:o}); it belongs to OpenCode, so Baton does not change it"
            );
            warnings.push(Problem::about(&Source::File(fallback.clone()), None, message));
        }
        Ok(Some(Stored { path: fallback.clone(), written }))
    }

    /// Restricts the file's mode to its owner.
    fn protect(&self, warnings: &mut Vec<Problem>) -> Result<(), Error> {
        if let Some(mode) = too_open(&self.path) {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(OWNER_ONLY)).map_err(self.failed())?;
            let message =
                format!("other users could read this file (its mode was {mode:o}); now only its owner can");
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
        // The lock is released when the file is closed, on success and on error.
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

/// The JSON in a file; `None` if the file does not exist.
fn written(path: &Path) -> Result<Option<Map<String, Value>>, Error> {
    let Some(text) = walk::read(path, MAX_BYTES).map_err(failed(path))? else { return Ok(None) };
    if text.trim().is_empty() {
        return Ok(Some(Map::new()));
    }
    serde_json::from_str(&text).map(Some).map_err(|error| {
        // Only the position is reported: serde's message might repeat a key.
        let at = Position { line: error.line(), column: error.column() };
        Error::Unreadable(Problem::about(
            &Source::File(path.to_owned()),
            Some(at),
            "the text is not a JSON map",
        ))
    })
}

/// The mode of a file that users other than its owner can read or change; `None` if only the owner can.
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
            let message = format!("the entry of `{provider}` is not a valid login; ignoring it");
            let source = source.as_ref().unwrap_or(&Source::Merged);
            warnings.push(Problem { key: provider, ..Problem::about(source, None, message) });
        }
    }
    Auth { entries, source, warnings }
}
