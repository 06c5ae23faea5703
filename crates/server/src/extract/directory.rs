//! Determines the directory of a call.

use std::{io, path::PathBuf, time::Duration};

use axum::extract::{FromRequestParts, Query};
use engine::Sessions;
use http::{HeaderMap, HeaderValue, request::Parts};
use protocol::{WorkspaceId, wire_error::BadRequestKind};
use serde::Deserialize;
use workspace::files::Closed;

use crate::{App, Error};

/// Header in which OpenCode's clients send the directory with calls that have a body.
const HEADER: &str = "x-opencode-directory";
/// Timeout for the file system to resolve a path. A dead network share blocks for ever.
const DEADLINE: Duration = Duration::from_secs(5);

/// Error for a directory that cannot be a project.
const CLOSED: &str =
    "cannot be a project: it belongs to Baton's own data or to the kernel (/proc, /sys, /dev)";

/// The directory of a call: from the query, else from a header, else the directory in which the server was
/// started. Absolute, existing and with symbolic links resolved, so that one directory has one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    pub path: String,
    /// True if the query named the directory; lists are restricted to it then.
    pub named: bool,
    /// The workspace that the fleet's layer has found. A list of its sessions comes from the database.
    pub(crate) elsewhere: Option<WorkspaceId>,
}

/// The directory of a call that names a workspace, or a directory that only another node has. This machine may not have
/// it, so it is not looked up.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere {
    pub(crate) path: String,
    pub(crate) workspace: WorkspaceId,
}

#[derive(Debug, Default, Deserialize)]
struct Named {
    directory: Option<String>,
    /// Parameter name in the newer interface.
    #[serde(rename = "location[directory]")]
    location: Option<String>,
}

impl FromRequestParts<App> for Directory {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if let Some(Elsewhere { path, workspace }) = parts.extensions.get::<Elsewhere>().cloned() {
            return Ok(Self { path, named: true, elsewhere: Some(workspace) });
        }
        let (given, kind) = given(parts)?;
        let named = kind == BadRequestKind::Query;
        match given {
            Some(given) => {
                Ok(Self { path: check(given, kind, &app.facts.closed).await?, named, elsewhere: None })
            }
            None => Ok(Self { path: app.facts.directory.clone(), named: false, elsewhere: None }),
        }
    }
}

/// The directory that a call names, and the part of the call that names it.
pub(crate) fn given(parts: &Parts) -> Result<(Option<String>, BadRequestKind), Error> {
    let query =
        Query::<Named>::try_from_uri(&parts.uri).map(|Query(named)| named.directory.or(named.location));
    let query = query.map_err(|_| refuse(BadRequestKind::Query, "", "is named more than once"))?;
    let (given, kind) = match query {
        Some(given) => (Some(given), BadRequestKind::Query),
        None => (header(&parts.headers)?, BadRequestKind::Headers),
    };
    // OpenCode's client percent-encodes the value before it puts it into the query, which encodes it again.
    Ok((given.filter(|given| !given.is_empty()).map(|given| decode(&given)), kind))
}

/// Names a directory in the header of a call that names none.
pub(crate) fn name(headers: &mut HeaderMap, directory: &str) {
    if let Ok(value) = HeaderValue::from_bytes(directory.replace('%', "%25").as_bytes()) {
        headers.insert(HEADER, value);
    }
}

/// Returns true if this machine has no such directory. A file system that does not answer may have it.
pub(crate) async fn is_missing(directory: &str) -> bool {
    let look = tokio::time::timeout(DEADLINE, tokio::fs::metadata(directory)).await;
    matches!(look, Ok(Err(error)) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

impl Directory {
    /// The workspace of the directory.
    pub(crate) fn workspace(&self, sessions: &Sessions) -> WorkspaceId {
        self.elsewhere.clone().unwrap_or_else(|| sessions.workspace(&self.path))
    }

    /// A directory named in the body of a call.
    pub async fn named(given: String, app: &App) -> Result<Self, Error> {
        let path = check(given, BadRequestKind::Payload, &app.facts.closed).await?;
        Ok(Self { path, named: true, elsewhere: None })
    }
}

fn header(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(value) => Ok(Some(value.to_owned())),
        Err(_) => Err(refuse(BadRequestKind::Headers, "", "is not UTF-8")),
    }
}

async fn check(given: String, kind: BadRequestKind, closed: &Closed) -> Result<String, Error> {
    let path = PathBuf::from(&given);
    if given.contains('\0') {
        return Err(refuse(kind, &given, "contains a NUL"));
    }
    if !path.is_absolute() {
        return Err(refuse(kind, &given, "is not an absolute path"));
    }
    let look = async {
        let real = tokio::fs::canonicalize(&path).await?;
        let facts = tokio::fs::metadata(&real).await?;
        Ok::<_, io::Error>((real, facts.is_dir()))
    };
    match tokio::time::timeout(DEADLINE, look).await {
        Err(_) => Err(refuse(kind, &given, "is on a file system that does not answer")),
        Ok(Err(error)) => Err(refuse(kind, &given, &reason(&error))),
        Ok(Ok((_, false))) => Err(refuse(kind, &given, "is not a directory")),
        Ok(Ok((real, true))) if closed.covers(&real) => Err(refuse(kind, &given, CLOSED)),
        Ok(Ok((real, true))) => real
            .into_os_string()
            .into_string()
            .map_err(|_| refuse(kind, &given, "has a name that is not UTF-8")),
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".into(),
        io::ErrorKind::NotADirectory => "is not a directory".into(),
        io::ErrorKind::PermissionDenied => "is not accessible to the user this server runs as".into(),
        _ => format!("is unusable: {error}"),
    }
}

fn refuse(kind: BadRequestKind, given: &str, why: &str) -> Error {
    let given = if given.is_empty() { String::new() } else { format!(" {given:?}") };
    Error::bad_request(kind, format!("the directory{given} {why}"))
}

/// Decodes percent-encoding. Text that is not validly encoded stays unchanged.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let (byte, tail) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, tail),
                _ => return text.to_owned(),
            },
            (b'%', _) => return text.to_owned(),
            (byte, tail) => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_percent_encoding_is_decoded() {
        assert_eq!(decode("%2Fsrv%2fa%20b"), "/srv/a b");
        assert_eq!(decode("/srv/ä"), "/srv/ä");
        for odd in ["/srv/100%", "/srv/%zz", "/srv/%ff", "%2"] {
            assert_eq!(decode(odd), odd);
        }
    }

    #[tokio::test]
    async fn links_and_dots_are_followed() {
        let tree = tempfile::tempdir().unwrap();
        let top = tree.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("real")).unwrap();
        std::os::unix::fs::symlink(top.join("real"), top.join("link")).unwrap();
        let wanted = top.join("real").to_str().unwrap().to_owned();
        for given in ["link", "real/", "real/../link/."] {
            let given = top.join(given).to_str().unwrap().to_owned();
            assert_eq!(check(given, BadRequestKind::Query, &Closed::default()).await.unwrap(), wanted);
        }
    }

    #[tokio::test]
    async fn invalid_directories_are_refused_with_a_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = file.path().to_str().unwrap();
        let given = ["relative", "../../etc", "/no/such/place", "/srv/\0", file, "~"];
        for given in given {
            let error = check(given.to_owned(), BadRequestKind::Query, &Closed::default()).await.unwrap_err();
            assert_eq!(error.status(), 400);
            assert!(error.to_string().contains("the directory"), "{error}");
        }
    }

    #[tokio::test]
    async fn closed_places_are_no_projects_by_any_name() {
        let tree = tempfile::tempdir().unwrap();
        let top = tree.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("data/log")).unwrap();
        std::os::unix::fs::symlink(top.join("data"), top.join("link")).unwrap();
        let closed = Closed::new([top.join("data")], []);
        let below = ["data", "data/log", "link", "link/../data/log"].map(|name| top.join(name));
        for given in below.into_iter().chain(["/proc/self", "/proc", "/sys", "/dev"].map(PathBuf::from)) {
            let given = given.to_str().unwrap().to_owned();
            let error = check(given.clone(), BadRequestKind::Query, &closed).await.unwrap_err();
            assert_eq!(error.status(), 400, "{given}");
            assert!(error.to_string().contains("cannot be a project"), "{error}");
        }
        check(top.to_str().unwrap().to_owned(), BadRequestKind::Query, &closed).await.unwrap();
    }
}
