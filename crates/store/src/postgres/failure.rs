//! Converts Postgres's errors to the engine's failures, with a message that names the cause, the server and a remedy.

use engine::ports::{Error, StoreFailure};
use tokio_postgres::error::SqlState;

use super::connect::Server;

/// `baton.fence`: another process or connection is the writer now.
pub(super) const FENCED: &str = "BN001";
/// `baton.accept`: a commit does not continue its session.
pub(super) const CONFLICT: &str = "BN002";
/// `baton.fence`: a pooler has moved the connection to another session.
pub(super) const MOVED: &str = "BN003";

/// `baton.append`: another node owns the workspace of a commit.
pub(super) const OWNED: &str = "BN004";

/// The reason why a statement failed.
#[derive(Debug)]
pub(super) enum Fault {
    Sql(tokio_postgres::Error),
    /// A row does not contain what was written.
    Odd(String),
    /// The database did not answer in time.
    Late,
    /// Another connection holds the node's lock; a description of it.
    Taken(String),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// The five characters of Postgres's error code.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Sql(error) => error.code().map(SqlState::code),
            Self::Odd(_) | Self::Late | Self::Taken(_) => None,
        }
    }

    /// Returns true if the connection cannot be used any more, so that the outcome of a commit is unknown.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Late => true,
            Self::Odd(_) | Self::Taken(_) => false,
            // Class 08: connection exceptions; 57P: the server shuts down or ended the session; 25P03: it ended an idle
            // transaction.
            Self::Sql(error) => {
                let ends = |code: &str| code.starts_with("08") || code.starts_with("57P") || code == "25P03";
                error.code().is_none_or(|code| ends(code.code()))
            }
        }
    }

    /// Returns true if no later attempt of this process can succeed.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.code(), Some(FENCED | MOVED))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sql(error) => match error.as_db_error() {
                Some(error) => out.write_str(error.message()),
                None => out.write_str(&net::chain(error)),
            },
            Self::Odd(what) => out.write_str(what),
            Self::Late => out.write_str("the database did not answer in time"),
            Self::Taken(holder) => write!(out, "another connection holds the lock{holder}"),
        }
    }
}

/// An error of the store; `doing` reads as "while …".
pub(super) fn failed(server: &Server, doing: &str, fault: &Fault) -> Error {
    let failure = classify(fault);
    if failure == StoreFailure::Conflict || fault.code() == Some(OWNED) {
        return Error::new(failure, fault.to_string());
    }
    let advice = match (failure, fault.code()) {
        (StoreFailure::Full, _) => "free some space on the database server and try again",
        (StoreFailure::Corrupt, _) => "restore the database from a backup",
        (_, Some(FENCED)) => "restart this server after the other one has stopped",
        (_, Some(MOVED)) => "connect to Postgres itself, or use a pooler in session mode",
        (_, Some("25006")) => "connect to the primary server",
        (_, Some("42501")) => "grant the role the rights that docs/fleet.md lists",
        _ => "check that the database server runs and can be reached",
    };
    Error::new(failure, format!("{fault} while {doing} {server}; {advice}"))
}

/// The store was closed, or its writer has ended.
pub(super) fn closed(server: &Server) -> Error {
    Error::new(StoreFailure::Unavailable, format!("the connection to {server} is closed; restart the server"))
}

fn classify(fault: &Fault) -> StoreFailure {
    match fault.code() {
        Some(CONFLICT) => StoreFailure::Conflict,
        Some(FENCED | OWNED) => StoreFailure::Fenced,
        // Disk full, out of memory, and limits of the server's configuration except the number of connections.
        Some("53100" | "53200" | "53400") => StoreFailure::Full,
        // Damaged data or indexes, and constraints that our own rows violate.
        Some(code) if code.starts_with("XX00") || code.starts_with("23") => StoreFailure::Corrupt,
        None if matches!(fault, Fault::Odd(_)) => StoreFailure::Corrupt,
        _ => StoreFailure::Unavailable,
    }
}
