//! Connects to a database, checks that Baton can use it, and registers this process as its writer.
//!
//! The writer's connection holds an advisory lock for as long as its session lives. A second server does not get the lock,
//! and a server that gets it after an outage knows that the transaction of its old connection has ended. The nodes of a
//! fleet share this lock, so it keeps only a server without a name out; the number of the writer tells their connections
//! apart.

use std::{fmt, future::poll_fn, sync::Arc, time::Duration};

use engine::fleet::Identity;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls,
    config::{Host, SslMode},
    types::{ToSql, Type},
};

use super::{failure::Fault, query::number, schema, tls::Tls};

/// Takes the log lock for a transaction. The keys of Baton's advisory locks are "Batn" and a number.
pub(super) const LOCK_LOG: &str = "SELECT pg_advisory_xact_lock(1113683054, 2)";
/// Takes the lock on the numbers of searched texts for a transaction.
pub(super) const LOCK_TEXTS: &str = "SELECT pg_advisory_xact_lock(1113683054, 4)";
/// Takes the right to trim the log for a transaction, if no other node has it.
pub(super) const LOCK_TRIM: &str = "SELECT pg_try_advisory_xact_lock(1113683054, 5)";
/// Takes the database for one server alone, for a session.
const LOCK_ALONE: &str = "SELECT pg_try_advisory_lock(1113683054, 1)";
/// Takes the same lock together with other nodes of a fleet. A server that wants the database for itself is refused.
const LOCK_SHARED: &str = "SELECT pg_try_advisory_lock_shared(1113683054, 1)";
/// Takes the name of a node for a session. The first key is "Bato"; two names with one hash exclude each other.
const LOCK_NAME: &str = "SELECT pg_try_advisory_lock(1113683055, hashtext($1))";
/// Keeps nodes that start at the same time from migrating the tables together.
const LOCK_SCHEMA: &str = "SELECT pg_advisory_lock(1113683054, 3)";
const UNLOCK_SCHEMA: &str = "SELECT pg_advisory_unlock(1113683054, 3)";

/// Ends the session with a process id, if it is the one that holds the node's lock.
const END_OLD: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'
    AND classid = 1113683054 AND objid = 1 AND granted";

/// The oldest supported Postgres, as `server_version_num`.
const OLDEST: i32 = 140_000;

/// Time for a connection to be opened and prepared.
const CONNECT: Duration = Duration::from_secs(5);

/// Time for a database to be opened, apart from its migration: to connect, to check it and to take the lock.
const OPENING: Duration = Duration::from_secs(30);

/// Time for the tables to be migrated. A migration may rewrite the log, which is limited by its own size.
const MIGRATION: Duration = Duration::from_mins(30);

/// Time that a start waits for the lock: the session of a server that was killed ends a moment later.
const LOCK: Duration = Duration::from_secs(3);
/// Pause between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Name of the node that has the database for itself.
pub(super) const SINGLE: &str = engine::ports::Alone::NODE;

/// Settings of the writer's session. The timeouts end a transaction whose client has stopped half-way, because others
/// wait for its locks; keepalives end the session of a machine that has vanished.
const WRITER: &str = "SET search_path = baton; SET statement_timeout = '5s'; SET lock_timeout = '3s';
    SET idle_in_transaction_session_timeout = '2s'; SET default_transaction_isolation = 'read committed';
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')";

/// Settings of a reader's session.
const READER: &str =
    "SET search_path = baton; SET statement_timeout = '30s'; SET default_transaction_read_only = on";

/// The address of a database, without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Server(Arc<str>);

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A parsed address with everything that a connection needs.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    pub(crate) server: Server,
}

impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.server, out)
    }
}

/// The reason why a database could not be opened. No message contains the password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(
        "the address of the database is not valid: {detail}; it looks like postgres://USER@HOST:5432/DATABASE"
    )]
    Address { detail: String },
    #[error("{server} cannot be reached: {detail}; check the address, and that the database server runs")]
    Unreachable { server: Server, detail: String },
    #[error("{server} refused the login: {detail}; check the role and the password in the address")]
    Login { server: Server, detail: String },
    #[error("{server} does not exist: {detail}; create the database, with the encoding UTF8")]
    Missing { server: Server, detail: String },
    #[error("the role of {server} lacks a right: {detail}; docs/fleet.md lists the rights that it needs")]
    Rights { server: Server, detail: String },
    #[error(
        "{server} is in use by another server{holder}; stop that server, or start all servers of this database as nodes, with --node NAME"
    )]
    Locked {
        server: Server,
        /// A description of the other server's connection, in parentheses.
        holder: String,
    },
    #[error(
        "{server} belongs to a fleet of nodes; start this server as a node, with --node NAME, or connect to a running node with --attach URL"
    )]
    Fleet { server: Server },
    #[error(
        "{server} contains sessions of a server without a node name; no node may act for their directories. Give the nodes a new database, or start the server without --node"
    )]
    Nameless { server: Server },
    #[error("the node {node} of {server} is already running; choose another name, or stop that server first")]
    Running { server: Server, node: String },
    #[error("the node {node} of {server} was declared dead while it started; start it again")]
    Dead { server: Server, node: String },
    #[error(
        "{server} was written by a newer Baton (schema {found}, this one knows {}); update Baton, or choose another database; nothing was changed",
        schema::VERSION
    )]
    Newer {
        server: Server,
        /// Its schema version.
        found: usize,
    },
    #[error(
        "{server} has a schema `baton` that is not Baton's; choose another database; nothing was changed"
    )]
    Foreign { server: Server },
    #[error("{server} is Postgres {found}; Baton needs Postgres 14 or newer")]
    Old { server: Server, found: String },
    #[error("{server} has the encoding {found}; create a database with the encoding UTF8")]
    Encoding { server: Server, found: String },
    #[error("{server} is read-only; connect to the primary server")]
    ReadOnly { server: Server },
    #[error(
        "{server} is behind a pooler in transaction mode, which cannot hold a lock; connect to Postgres itself, or use a pooler in session mode"
    )]
    Pooled { server: Server },
    #[error("{server} is full: {detail}; free some space on the database server")]
    Full { server: Server, detail: String },
    #[error("{server} cannot be used: {detail}")]
    Sql { server: Server, detail: String },
}

/// The identity of a writer's connection, which every commit proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(super) node: Arc<str>,
    pub(super) incarnation: i64,
    pub(super) writer: i64,
    /// Process id of the server's end of the connection.
    pub(super) backend: i32,
}

impl Token {
    /// Returns true if the node has the database for itself.
    pub(super) fn is_single(&self) -> bool {
        &*self.node == SINGLE
    }
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let invalid = |detail: &str| OpenError::Address { detail: detail.to_owned() };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(invalid("it does not begin with postgres://"));
        }
        // Certificates are always verified, so libpq's stricter modes mean the same as `require`.
        let url = url
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = url.parse().map_err(|error| invalid(&net::chain(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(invalid("it names no host"));
        }
        config.application_name("baton").connect_timeout(CONNECT);
        let server = Server(described(&config).into());
        Ok(Self { config, server })
    }

    /// Opens a connection for reading.
    pub(super) async fn reader(&self) -> Result<Client, Fault> {
        self.within(async {
            let client = self.connect().await?;
            client.batch_execute(READER).await?;
            Ok(client)
        })
        .await
    }

    /// Opens a connection for the writer, without the lock.
    async fn writer(&self) -> Result<Client, Fault> {
        self.within(async {
            let client = self.connect().await?;
            client.batch_execute(WRITER).await?;
            Ok(client)
        })
        .await
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        timeout(CONNECT, work).await.unwrap_or(Err(Fault::Late))
    }

    async fn connect(&self) -> Result<Client, Fault> {
        // The task ends with the connection: when the client is dropped, or when the server closes it.
        if self.config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = self.config.connect(NoTls).await?;
            tokio::spawn(async move { drop(connection.await) });
            return Ok(client);
        }
        let (client, connection) = self.config.connect(Tls).await?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// Opens a connection for reading that passes on the positions which the writers of a fleet announce.
    pub(super) async fn listener(&self, hint: watch::Sender<u64>) -> Result<Client, Fault> {
        self.within(async {
            let client = if self.config.get_ssl_mode() == SslMode::Disable {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(listen(connection, hint));
                client
            } else {
                let (client, connection) = self.config.connect(Tls).await?;
                tokio::spawn(listen(connection, hint));
                client
            };
            client.batch_execute(READER).await?;
            client.batch_execute("LISTEN baton_log").await?;
            Ok(client)
        })
        .await
    }

    /// Opens the database for a new process: checks it, takes the lock, creates or migrates the tables.
    pub(crate) async fn open(&self) -> Result<(Client, Token), OpenError> {
        let late = |_| refused(&self.server, Fault::Late);
        let client = timeout(OPENING, self.lock()).await.map_err(late)??;
        timeout(MIGRATION, schema::migrate(&client, &self.server)).await.map_err(late)??;
        if self.finds(&client, "EXISTS (SELECT FROM baton.workspace WHERE home IS NOT NULL)").await? {
            return Err(OpenError::Fleet { server: self.server.clone() });
        }
        let token = timeout(OPENING, self.begin(&client)).await.map_err(late)??;
        Ok((client, token))
    }

    /// Opens the database for the record of a node: checks it, takes the node's name, creates or migrates the tables.
    pub(super) async fn open_node(&self, node: &str) -> Result<Client, OpenError> {
        let server = &self.server;
        let late = |_| refused(server, Fault::Late);
        let opening = async {
            let client = self.lock_with(LOCK_SHARED).await?;
            let begun = Instant::now();
            let name: Values<'_> = &[(&node, Type::TEXT)];
            while !take(&client, LOCK_NAME, name).await.map_err(|fault| refused(server, fault))? {
                if begun.elapsed() >= LOCK {
                    return Err(OpenError::Running { server: server.clone(), node: node.to_owned() });
                }
                sleep(LOCK_PAUSE).await;
            }
            Ok(client)
        };
        let client = timeout(OPENING, opening).await.map_err(late)??;
        let failed = |error| refused(server, Fault::Sql(error));
        client.batch_execute(LOCK_SCHEMA).await.map_err(failed)?;
        timeout(MIGRATION, schema::migrate(&client, server)).await.map_err(late)??;
        client.batch_execute(UNLOCK_SCHEMA).await.map_err(failed)?;
        let nameless = "EXISTS (SELECT FROM baton.session WHERE NOT EXISTS
            (SELECT FROM baton.workspace WHERE workspace.id = session.workspace))";
        if self.finds(&client, nameless).await? {
            return Err(OpenError::Nameless { server: server.clone() });
        }
        Ok(client)
    }

    /// Evaluates a condition on the tables.
    async fn finds(&self, client: &Client, condition: &str) -> Result<bool, OpenError> {
        let sql = format!("SELECT {condition}");
        let asked = client.query_typed_one(&sql, &[]);
        let late = |_| refused(&self.server, Fault::Late);
        let row = timeout(OPENING, asked).await.map_err(late)?;
        row.map(|row| row.get(0)).map_err(|error| refused(&self.server, Fault::Sql(error)))
    }

    /// Opens the writer's connection of a node that is registered.
    pub(super) async fn join(&self, node: &Identity<String>) -> Result<(Client, Token), OpenError> {
        let server = &self.server;
        let late = |_| refused(server, Fault::Late);
        let joining = async {
            let client = self.shared().await?;
            let token = connected(&client, &node.node, number(node.incarnation)).await?;
            Ok(token.map(|token| (client, token)))
        };
        let joined = timeout(OPENING, joining).await.map_err(late)?;
        let joined = joined.map_err(|fault| refused(server, fault))?;
        joined.ok_or_else(|| OpenError::Dead { server: server.clone(), node: node.node.clone() })
    }

    /// Opens a connection of a node, which the lock keeps apart from a server that has the database for itself.
    pub(super) async fn shared(&self) -> Result<Client, Fault> {
        let client = self.writer().await?;
        let begun = Instant::now();
        while !take(&client, LOCK_SHARED, &[]).await? {
            if begun.elapsed() >= LOCK {
                return Err(Fault::Taken(holder(&client).await));
            }
            sleep(LOCK_PAUSE).await;
        }
        Ok(client)
    }

    /// Connects, checks the database and takes the lock of a server that has it for itself.
    async fn lock(&self) -> Result<Client, OpenError> {
        self.lock_with(LOCK_ALONE).await
    }

    async fn lock_with(&self, lock: &str) -> Result<Client, OpenError> {
        let server = &self.server;
        let client = self.writer().await.map_err(|fault| refused(server, fault))?;
        inspect(&client, server).await?;
        let begun = Instant::now();
        while !take(&client, lock, &[]).await.map_err(|fault| refused(server, fault))? {
            if begun.elapsed() >= LOCK {
                let server = server.clone();
                // Nodes share the lock, so only a server that wants it alone finds them.
                return Err(match (is_shared(&client).await, holder(&client).await) {
                    (true, _) => OpenError::Fleet { server },
                    (false, holder) => OpenError::Locked { server, holder },
                });
            }
            sleep(LOCK_PAUSE).await;
        }
        self.refuse_pooler(&client).await?;
        Ok(client)
    }

    /// Registers a new process as the only node.
    async fn begin(&self, client: &Client) -> Result<Token, OpenError> {
        let server = &self.server;
        let begin = "INSERT INTO baton.node (id, incarnation, writer) VALUES ($1, 1, 1)
            ON CONFLICT (id) DO UPDATE SET incarnation = node.incarnation + 1, writer = node.writer + 1,
                state = 'up'
            RETURNING incarnation, writer, pg_backend_pid()";
        let token = register(client, SINGLE, begin, &[(&SINGLE, Type::TEXT)]).await;
        let token = token.map_err(|fault| refused(server, fault))?;
        // Only a node that another program has deleted has no row.
        token.ok_or_else(|| refused(server, Fault::Late))
    }

    /// Connects again after an outage. `Ok(None)` means that another process has become the writer, for good.
    pub(super) async fn reopen(&self, old: &Token) -> Result<Option<(Client, Token)>, Fault> {
        // A node of a fleet has no lock to wait for. Its new number shuts out a transaction of the old connection.
        let client = if old.is_single() { self.retake(old).await? } else { self.shared().await? };
        let token = connected(&client, &old.node, old.incarnation).await?;
        Ok(token.map(|token| (client, token)))
    }

    /// Connects and takes the lock from the old connection of the same process.
    async fn retake(&self, old: &Token) -> Result<Client, Fault> {
        let client = self.writer().await?;
        let begun = Instant::now();
        while !take(&client, LOCK_ALONE, &[]).await? {
            // The old session may live on if the network has failed. It is ours, so it may be ended.
            client.query_typed(END_OLD, &[(&old.backend, Type::INT4)]).await?;
            if begun.elapsed() >= LOCK {
                return Err(Fault::Taken(holder(&client).await));
            }
            sleep(LOCK_PAUSE).await;
        }
        Ok(client)
    }

    /// Detects a pooler in transaction mode: it gives the session that holds the lock, idle now, to another client.
    async fn refuse_pooler(&self, client: &Client) -> Result<(), OpenError> {
        let failed = |fault| refused(&self.server, fault);
        let other = self.reader().await.map_err(failed)?;
        let ours = backend(client).await.map_err(failed)?;
        let theirs = backend(&other).await.map_err(failed)?;
        let again = backend(client).await.map_err(failed)?;
        if ours == theirs || ours != again {
            return Err(OpenError::Pooled { server: self.server.clone() });
        }
        Ok(())
    }
}

/// Drives a connection until it ends, and passes on the positions that it hears of.
async fn listen<S, T>(mut connection: Connection<S, T>, hint: watch::Sender<u64>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message
            && let Ok(position) = notification.payload().parse()
        {
            hint.send_replace(position);
        }
    }
}

/// The error of a database that cannot be opened.
#[expect(clippy::needless_pass_by_value, reason = "passed to `map_err`")]
pub(super) fn refused(server: &Server, fault: Fault) -> OpenError {
    let (server, detail) = (server.clone(), fault.to_string());
    match fault.code() {
        Some("28P01" | "28000") => OpenError::Login { server, detail },
        Some("3D000") => OpenError::Missing { server, detail },
        Some("42501") => OpenError::Rights { server, detail },
        Some("25006") => OpenError::ReadOnly { server },
        Some("53100") => OpenError::Full { server, detail },
        None => OpenError::Unreachable { server, detail },
        Some(_) if fault.is_lost() => OpenError::Unreachable { server, detail },
        Some(_) => OpenError::Sql { server, detail },
    }
}

/// Refuses a server that Baton cannot use.
async fn inspect(client: &Client, server: &Server) -> Result<(), OpenError> {
    let row = client
        .query_typed_one(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                 current_setting('server_encoding'), current_setting('transaction_read_only') = 'on'",
            &[],
        )
        .await
        .map_err(|error| refused(server, Fault::Sql(error)))?;
    let server = server.clone();
    if row.get::<_, i32>(0) < OLDEST {
        return Err(OpenError::Old { server, found: row.get(1) });
    }
    if row.get::<_, &str>(2) != "UTF8" {
        return Err(OpenError::Encoding { server, found: row.get(2) });
    }
    if row.get(3) {
        return Err(OpenError::ReadOnly { server });
    }
    Ok(())
}

/// The values of a statement, with their types.
pub(super) type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Tries to take a lock.
async fn take(client: &Client, lock: &str, values: Values<'_>) -> Result<bool, Fault> {
    Ok(client.query_typed_one(lock, values).await?.get(0))
}

/// Gives a process's new connection for commits its number; `None` if another process is the node now.
async fn connected(client: &Client, node: &str, incarnation: i64) -> Result<Option<Token>, Fault> {
    let sql = "UPDATE baton.node SET writer = writer + 1 WHERE id = $1 AND incarnation = $2
        RETURNING incarnation, writer, pg_backend_pid()";
    register(client, node, sql, &[(&node, Type::TEXT), (&incarnation, Type::INT8)]).await
}

async fn backend(client: &Client) -> Result<i32, Fault> {
    Ok(client.query_typed_one("SELECT pg_backend_pid()", &[]).await?.get(0))
}

/// Changes the node's row under the log lock, and returns the token of its new writer.
async fn register(
    client: &Client,
    node: &str,
    sql: &str,
    values: Values<'_>,
) -> Result<Option<Token>, Fault> {
    client.batch_execute(&format!("BEGIN; {LOCK_LOG}")).await?;
    let row = client.query_typed_opt(sql, values).await?;
    client.batch_execute("COMMIT").await?;
    let node = node.into();
    Ok(row.map(|row| Token { node, incarnation: row.get(0), writer: row.get(1), backend: row.get(2) }))
}

/// Returns true if nodes hold the lock together.
async fn is_shared(client: &Client) -> bool {
    let sql =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock'
        AND classid = 1113683054 AND objid = 1 AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
    client.query_typed_one(sql, &[]).await.is_ok_and(|row| row.get(0))
}

/// Describes the connection that holds the node's lock, as far as the role may see it.
async fn holder(client: &Client) -> String {
    let found = client
        .query_typed_opt(
            "SELECT format(' (%s, process %s of the database server, connected since %s)',
                 coalesce(host(client_addr), 'a local socket'), pid, to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS'))
             FROM pg_stat_activity WHERE pid = (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
                 AND classid = 1113683054 AND objid = 1 AND objsubid = 2
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                 ORDER BY pid LIMIT 1)",
            &[],
        )
        .await;
    found.ok().flatten().map(|row| row.get(0)).unwrap_or_default()
}

/// The address without the password.
fn described(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or(ports.first()).map(|port| format!(":{port}")).unwrap_or_default();
        match host {
            Host::Tcp(name) => format!("{name}{port}"),
            Host::Unix(path) => format!("{}{port}", path.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{user}{hosts}/{database}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_shown_without_its_password() {
        let target =
            Target::parse("postgres://ada:s3cret@db.example:6432/baton?sslmode=verify-full").unwrap();
        assert_eq!(target.server.to_string(), "postgres://ada@db.example:6432/baton");
        assert!(!format!("{target:?}").contains("s3cret"));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn a_wrong_address_is_refused_without_repeating_it() {
        for url in [
            "",
            "mysql://ada:s3cret@db/baton",
            "postgres:///baton",
            "postgres://ada:s3cret@db:port/baton",
            "postgres://ada:s3cret@db/baton?sslmode=maybe",
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(!error.contains("s3cret") && error.contains("not valid"), "{url}: {error}");
        }
    }
}
