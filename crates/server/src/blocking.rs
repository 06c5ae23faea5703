//! Runs blocking file operations off the threads that serve calls.

use protocol::wire_error::BadRequestKind;
use workspace::{files, git, search};

use crate::{Error, error::Fault};

/// Runs `work` on a thread that may block.
pub(crate) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Error>
where
    T: Send + 'static,
    E: Into<Error> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(Into::into),
        Err(error) => Err(Error::broken(&error)),
    }
}

impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        match error {
            files::Error::NotFound(_) => Self::plain(Fault::NotFound, error.to_string()),
            _ => Self::bad_request(BadRequestKind::Query, error.to_string()),
        }
    }
}

impl From<search::Error> for Error {
    fn from(error: search::Error) -> Self {
        Self::bad_request(BadRequestKind::Query, error.to_string())
    }
}

/// Every git error concerns the repository that the call named, so it is the client's error.
impl From<git::Error> for Error {
    fn from(error: git::Error) -> Self {
        Self::bad_request(BadRequestKind::Query, error.to_string())
    }
}
