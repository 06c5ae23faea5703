//! Work on files, which blocks, away from the threads that answer calls.

use protocol::wire_error::BadRequestKind;
use workspace::{files, git, search};

use crate::{Error, error::Fault};

/// Does it on a thread that may block.
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

/// Whatever git refuses is about the repository the call named.
impl From<git::Error> for Error {
    fn from(error: git::Error) -> Self {
        Self::bad_request(BadRequestKind::Query, error.to_string())
    }
}
