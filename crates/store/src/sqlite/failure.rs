//! Converts SQLite's errors to the engine's failures, with a message that names the cause, the file and a remedy.

use std::path::Path;

use engine::ports::{Error, StoreFailure};
use rusqlite::ErrorCode;

/// A file system with less free space than this counts as full. SQLite reports some writes that fail for lack of
/// space (growing its shared memory, syncing) as plain I/O errors, without the system's reason.
const NO_ROOM_BYTES: u64 = 64 * 1024;

/// An error of the store at `path`; `doing` reads as "while …".
pub(super) fn failed(path: &Path, doing: &str, error: &rusqlite::Error) -> Error {
    let failure = classify(path, error);
    let advice = match failure {
        StoreFailure::Full => "free some space and try again",
        StoreFailure::Corrupt => {
            "restore the file from a backup, or move it away to start with an empty database"
        }
        StoreFailure::Conflict | StoreFailure::Fenced | StoreFailure::Unavailable => {
            "check the disk and the permissions of the file"
        }
    };
    Error::new(failure, format!("{error} while {doing} {}; {advice}", path.display()))
}

/// A connection for reading could not be opened.
pub(super) fn unopened(path: &Path, error: &str) -> Error {
    Error::new(StoreFailure::Unavailable, format!("failed to open {} for reading: {error}", path.display()))
}

/// The store was closed, or its writer has ended.
pub(super) fn closed(path: &Path) -> Error {
    Error::new(StoreFailure::Unavailable, format!("{} is closed; restart the server", path.display()))
}

fn classify(path: &Path, error: &rusqlite::Error) -> StoreFailure {
    use rusqlite::Error as Sql;
    match error {
        Sql::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => StoreFailure::Full,
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen if no_room(path) => StoreFailure::Full,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => {
                StoreFailure::Corrupt
            }
            _ => StoreFailure::Unavailable,
        },
        // Rows that do not contain what we wrote.
        Sql::FromSqlConversionFailure(..)
        | Sql::IntegralValueOutOfRange(..)
        | Sql::Utf8Error(..)
        | Sql::InvalidColumnType(..) => StoreFailure::Corrupt,
        _ => StoreFailure::Unavailable,
    }
}

fn no_room(path: &Path) -> bool {
    let directory = path.parent().unwrap_or(path);
    rustix::fs::statvfs(directory)
        .is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) < NO_ROOM_BYTES)
}
