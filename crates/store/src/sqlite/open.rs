//! Opens a database, or refuses it without leaving a trace.
//!
//! Everything that can be refused is refused before anything is written: a file of another program or of a newer
//! Baton by its header, a damaged one by reading it as immutable. Only then do the lock, the write-ahead log and
//! the migrations touch the disk.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

use super::{
    lock::{Lock, Refused},
    schema, space,
};

/// Time to wait for another program (a backup, a shell) that has locked the file.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Prepared statements to cache per connection; there are about fifty.
const STATEMENTS: usize = 64;

/// Page cache of each reader.
const READER_CACHE_KIB: i32 = 1_024;

/// Files up to this size are checked completely at every start, which takes some hundredths of a second. In larger
/// ones, only the tables that everything else depends on are checked.
const CHECK_WHOLE_BYTES: u64 = 16 * 1024 * 1024;

/// Small tables that every start reads.
const CHECK_TABLES: [&str; 5] = ["session", "status", "prompt", "request", "retention"];

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER: usize = 100;
const VERSION_AT: usize = 60;
const APPLICATION_AT: usize = 68;

/// The reason why a database could not be opened. The file is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(
        "{} is in use by another server{}; stop that one, or choose another data directory",
        path.display(),
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    Locked {
        path: PathBuf,
        /// Process id of the other server.
        pid: Option<u32>,
    },
    #[error(
        "{} was written by a newer Baton (schema {found}, this one knows {}); update Baton, or choose another data directory; nothing was changed",
        path.display(),
        schema::VERSION
    )]
    Newer {
        path: PathBuf,
        /// Its schema version.
        found: u32,
    },
    #[error("the sessions in {} were moved to Postgres; use --store or BATON_STORE, or choose another data directory", path.display())]
    Moved { path: PathBuf },
    #[error("{} is a database of another program; choose another data directory; nothing was changed", path.display())]
    Foreign { path: PathBuf },
    #[error("{} is not a database; move it away, or choose another data directory; nothing was changed", path.display())]
    NotADatabase { path: PathBuf },
    #[error("{} is damaged ({detail}); restore it from a backup, or move it away to start with an empty database; nothing was changed", path.display())]
    Corrupt {
        path: PathBuf,
        /// SQLite's report of the damage.
        detail: String,
    },
    /// A file system operation failed.
    #[error("{} could not be {doing}; check the path, its permissions and the free space", path.display())]
    Io {
        path: PathBuf,
        /// The failed operation, as in "could not be read".
        doing: &'static str,
        source: io::Error,
    },
    /// SQLite failed to open the file.
    #[error("{} could not be opened; check its permissions, the free space, and whether another program uses it", path.display())]
    Sql { path: PathBuf, source: rusqlite::Error },
}

/// The state of the file at the path.
enum Found {
    /// No file, or an empty one.
    Nothing,
    /// A Baton database without a journal: the file is complete.
    Settled,
    /// A database with pending changes in a write-ahead log or journal beside it.
    Unsettled,
}

/// Opens or creates the database at an absolute path, locks it, and migrates its tables.
pub(super) fn open(path: &Path) -> Result<(Connection, Lock), OpenError> {
    inspect(path)?;
    let lock = reserve(path)?;
    // Inspects it again: before the lock was taken, another server may have changed the file.
    let found = inspect(path)?;
    if matches!(found, Found::Settled) {
        let frozen = Connection::open_with_flags(
            immutable(path),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .map_err(sql(path))?;
        check(path, &frozen)?;
    }
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql(path))?;
    if matches!(found, Found::Unsettled) {
        // If the file is refused, closing it must not move the pending log into it.
        let keep_log = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(keep_log, true).map_err(sql(path))?;
        let number = |name| connection.pragma_query_value(None, name, |row| row.get(0)).map_err(sql(path));
        // The database is empty if its very first transaction was interrupted.
        if number("page_count")? > 0 {
            admit(path, number("application_id")?, number("user_version")?)?;
            check(path, &connection)?;
        }
        connection.set_db_config(keep_log, false).map_err(sql(path))?;
    }
    space::prepare(&connection);
    schema::migrate(&mut connection).map_err(sql(path))?;
    configure(&connection).map_err(sql(path))?;
    Ok((connection, lock))
}

/// Takes the lock of the database at an absolute path, and creates its directory.
pub(super) fn reserve(path: &Path) -> Result<Lock, OpenError> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|source| OpenError::Io {
            path: directory.to_path_buf(),
            doing: "created",
            source,
        })?;
    }
    Lock::take(path).map_err(|refused| match refused {
        Refused::Held(pid) => OpenError::Locked { path: path.to_path_buf(), pid },
        Refused::HeldElsewhere => OpenError::Locked { path: path.to_path_buf(), pid: None },
        Refused::Io(doing, source) => OpenError::Io { path: path.to_path_buf(), doing, source },
    })
}

/// A read-only connection; the database is already open for writing.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // Small, because there are several readers and the system caches the file too.
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    Ok(connection)
}

fn connect(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise SQLite prepares a statement again whenever it is bound to other values.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // In memory: a temporary file would be a second place that could be full.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Truncates the log again after a large transaction.
    connection.pragma_update_and_check(None, "journal_size_limit", space::LOG_BYTES, |_| Ok(()))?;
    // The writer runs checkpoints itself, after it has acknowledged commits.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))
}

/// Reads the header without SQLite, which would already create files.
fn inspect(path: &Path) -> Result<Found, OpenError> {
    let mut header = Vec::with_capacity(HEADER);
    let read = File::open(path).and_then(|file| file.take(HEADER as u64).read_to_end(&mut header));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(source) => return Err(OpenError::Io { path: path.to_path_buf(), doing: "read", source }),
        Ok(_) => {}
    }
    if has_content(path, "-journal") {
        // A transaction was interrupted before the write-ahead log existed: SQLite rolls it back first.
        return Ok(Found::Unsettled);
    }
    if header.is_empty() {
        return Ok(Found::Nothing);
    }
    if !header.starts_with(MAGIC) || header.len() < HEADER {
        return Err(OpenError::NotADatabase { path: path.to_path_buf() });
    }
    admit(path, word(&header, APPLICATION_AT), word(&header, VERSION_AT))?;
    Ok(if has_content(path, "-wal") { Found::Unsettled } else { Found::Settled })
}

fn admit(path: &Path, application: u32, version: u32) -> Result<(), OpenError> {
    if application == schema::MOVED {
        Err(OpenError::Moved { path: path.to_path_buf() })
    } else if application != schema::APPLICATION {
        Err(OpenError::Foreign { path: path.to_path_buf() })
    } else if version > schema::VERSION {
        Err(OpenError::Newer { path: path.to_path_buf(), found: version })
    } else {
        Ok(())
    }
}

fn word(header: &[u8], at: usize) -> u32 {
    header
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map(|bytes| u32::from_be_bytes(*bytes))
        .unwrap_or_default()
}

fn check(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let size = fs::metadata(path).map(|file| file.len()).unwrap_or_default();
    if size <= CHECK_WHOLE_BYTES {
        return check_one(path, connection, "1");
    }
    CHECK_TABLES.iter().try_for_each(|table| check_one(path, connection, table))
}

fn check_one(path: &Path, connection: &Connection, what: &str) -> Result<(), OpenError> {
    let answer: String = connection
        .query_row(&format!("PRAGMA quick_check({what})"), [], |row| row.get(0))
        .map_err(sql(path))?;
    if answer == "ok" {
        Ok(())
    } else {
        Err(OpenError::Corrupt { path: path.to_path_buf(), detail: answer.replace('\n', " ") })
    }
}

fn sql(path: &Path) -> impl Fn(rusqlite::Error) -> OpenError {
    let path = path.to_path_buf();
    move |source| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Corrupt { path: path.clone(), detail: source.to_string() }
        }
        _ => OpenError::Sql { path: path.clone(), source },
    }
}

fn has_content(path: &Path, suffix: &str) -> bool {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    fs::metadata(PathBuf::from(name)).is_ok_and(|file| file.len() > 0)
}

/// The file as a URI that tells SQLite that it is immutable, so that SQLite takes no lock and creates no file.
fn immutable(path: &Path) -> PathBuf {
    let mut uri = OsString::from("file:");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte) {
            uri.push(char::from(*byte).encode_utf8(&mut [0; 4]));
        } else {
            uri.push(format!("%{byte:02X}"));
        }
    }
    uri.push("?immutable=1");
    uri.into()
}
