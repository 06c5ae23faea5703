//! The rows of the nodes that share a database, and the transactions that change them.
//!
//! `engine::fleet` decides and this module carries out; the rules are those of [`engine::fleet::Record`], as SQL. A beat
//! has a connection of its own and does not take the log lock, so that a busy log does not end a lease.

use std::{sync::Arc, time::Duration};

use engine::{
    fleet::{
        Identity, Kind, Refusal, Ruling,
        record::{Member, Ownership, State},
    },
    ports::{Error, HomeNode, NodeRecord, Peer, Rows, StoreFailure, StoreFuture, Transaction},
};
use protocol::{
    WorkspaceId,
    fleet::{FleetNode, FleetWorkspace},
};
use tokio::{sync::Mutex, time::timeout};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{
    connect::{LOCK_LOG, OpenError, Target, Values},
    failure::{self, Fault},
    overview,
    query::{Found, column, count, id, number},
    text::storable,
};

/// Time for one transaction. The server's own timeouts are shorter.
const TRANSACTION: Duration = Duration::from_secs(10);

/// The record of the nodes, as one of them uses it.
#[derive(Debug)]
pub struct Nodes {
    target: Target,
    name: String,
    address: String,
    version: String,
    /// The connection for changes of ownership and for looks; `None` after a failure.
    changes: Mutex<Option<Client>>,
    beats: Mutex<Option<Client>>,
    /// The connection that answers calls of clients, which do not wait for changes.
    questions: Mutex<Option<Client>>,
}

impl Nodes {
    /// Opens the database for the node `name`; its tables are created if they do not exist. Refuses a database that a
    /// server has for itself, and a name that another server uses. The other nodes reach this one at `address`.
    pub async fn open(url: &str, name: &str, address: &str, version: &str) -> Result<Arc<Self>, OpenError> {
        let target = Target::parse(url)?;
        let client = target.open_node(name).await?;
        Ok(Arc::new(Self {
            target,
            name: name.to_owned(),
            address: address.to_owned(),
            version: version.to_owned(),
            changes: Mutex::new(Some(client)),
            beats: Mutex::default(),
            questions: Mutex::default(),
        }))
    }

    /// Takes a connection out of its place. It is put back after a success, so that no other caller gets one with an
    /// unfinished transaction.
    async fn take(&self, place: &mut Option<Client>) -> Result<Client, Error> {
        match place.take().filter(|client| !client.is_closed()) {
            Some(client) => Ok(client),
            None => self.target.shared().await.map_err(|fault| self.failed(&fault)),
        }
    }

    async fn finish<T>(&self, work: impl Future<Output = Found<T>>) -> Result<T, Error> {
        let done = timeout(TRANSACTION, work).await.unwrap_or(Err(Fault::Late));
        done.map_err(|fault| self.failed(&fault))
    }

    pub(super) fn failed(&self, fault: &Fault) -> Error {
        failure::failed(&self.target.server, "changing the nodes of", fault)
    }

    async fn beat(&self, by: &Identity<String>) -> Result<Ruling, Error> {
        let mut place = self.beats.lock().await;
        let client = self.take(&mut place).await?;
        let sql = "UPDATE node SET beat = beat + 1, beaten = now() WHERE id = $1 AND incarnation = $2";
        let changed = self.finish(execute(&client, sql, &identity(by, &number(by.incarnation)))).await?;
        *place = Some(client);
        Ok(done_if(changed > 0, Refusal::Dead))
    }

    /// Stores the wish that a node takes no new work. It needs no log lock, because no commit depends on it.
    async fn wish(&self, node: &str, wanted: bool) -> Result<bool, Error> {
        let mut place = self.changes.lock().await;
        let client = self.take(&mut place).await?;
        let sql = "UPDATE node SET drain = $2 WHERE id = $1 AND state <> 'dead' AND id <> 'single'";
        let values: [(&(dyn ToSql + Sync), Type); 2] = [(&node, Type::TEXT), (&wanted, Type::BOOL)];
        let changed = self.finish(execute(&client, sql, &values)).await?;
        *place = Some(client);
        Ok(changed > 0)
    }

    async fn change(&self, transaction: Transaction) -> Result<Ruling, Error> {
        let mut place = self.changes.lock().await;
        let client = self.take(&mut place).await?;
        let work = async {
            client.batch_execute(&format!("BEGIN; {LOCK_LOG}")).await?;
            let ruling = self.rule(&client, &transaction).await?;
            client.batch_execute("COMMIT").await?;
            Ok(ruling)
        };
        let ruling = self.finish(work).await?;
        *place = Some(client);
        Ok(ruling)
    }

    /// Carries out a transaction under the log lock.
    async fn rule(&self, client: &Client, transaction: &Transaction) -> Found<Ruling> {
        let by = match transaction {
            Transaction::Register { node } => return self.register(client, node).await,
            Transaction::Beat { by }
            | Transaction::Drain { by }
            | Transaction::Declare { by, .. }
            | Transaction::Claim { by, .. }
            | Transaction::Release { by, .. }
            | Transaction::Connect { by } => by,
        };
        let incarnation = number(by.incarnation);
        let known = "SELECT FROM node WHERE id = $1 AND incarnation = $2";
        if client.query_typed_opt(known, &identity(by, &incarnation)).await?.is_none() {
            return Ok(Ruling::Refused(Refusal::Dead));
        }
        let update = |sql: &'static str| async move { execute(client, sql, &[(&by.node, Type::TEXT)]).await };
        match transaction {
            Transaction::Register { .. } => Ok(Ruling::Done),
            Transaction::Beat { .. } => {
                update("UPDATE node SET beat = beat + 1, beaten = now() WHERE id = $1").await?;
                Ok(Ruling::Done)
            }
            Transaction::Drain { .. } => {
                update("UPDATE node SET state = 'draining' WHERE id = $1").await?;
                Ok(Ruling::Done)
            }
            Transaction::Connect { .. } => {
                let sql = "UPDATE node SET writer = writer + 1 WHERE id = $1 RETURNING writer";
                let row = client.query_typed_one(sql, &[(&by.node, Type::TEXT)]).await?;
                Ok(Ruling::Connected { writer: count(&row, 0)? })
            }
            Transaction::Declare { node, seen, .. } => {
                // A beat takes no log lock: this statement waits for the row and compares again.
                let sql = "UPDATE node SET state = 'dead', incarnation = incarnation + 1
                    WHERE id = $1 AND incarnation = $2 AND beat = $3 AND state <> 'dead'";
                let (incarnation, beat) = (number(seen.incarnation), number(seen.beat));
                let values: [(&(dyn ToSql + Sync), Type); 3] =
                    [(node, Type::TEXT), (&incarnation, Type::INT8), (&beat, Type::INT8)];
                Ok(done_if(execute(client, sql, &values).await? > 0, Refusal::Changed))
            }
            Transaction::Claim { holding, epoch, custody, .. } => {
                claim(client, &by.node, holding, *epoch, *custody).await
            }
            Transaction::Release { holding, epoch, .. } => {
                let sql = "UPDATE workspace SET owner = NULL, custody = false
                    WHERE id = $1 AND epoch = $2 AND owner = $3";
                let epoch = number(*epoch);
                let values: [(&(dyn ToSql + Sync), Type); 3] =
                    [(&holding.as_str(), Type::TEXT), (&epoch, Type::INT8), (&by.node, Type::TEXT)];
                Ok(done_if(execute(client, sql, &values).await? > 0, Refusal::Changed))
            }
        }
    }

    async fn register(&self, client: &Client, node: &str) -> Found<Ruling> {
        let sql = "INSERT INTO node (id, incarnation, writer, address, version, beaten)
            VALUES ($1, baton.floor() + 1, baton.floor(), $2, $3, now())
            ON CONFLICT (id) DO UPDATE SET incarnation = node.incarnation + 1, state = 'up', drain = false,
                address = excluded.address, version = excluded.version, beaten = excluded.beaten
            RETURNING incarnation";
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&node, Type::TEXT), (&self.address, Type::TEXT), (&self.version, Type::TEXT)];
        let row = client.query_typed_one(sql, &values).await?;
        Ok(Ruling::Registered { incarnation: count(&row, 0)? })
    }

    async fn read(&self, custodies: Vec<WorkspaceId>) -> Result<Rows, Error> {
        let custodies: Vec<_> = custodies.iter().map(WorkspaceId::as_str).collect();
        let mut place = self.changes.lock().await;
        let client = self.take(&mut place).await?;
        let work = async {
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            let nodes = client.query_typed(NODES, &[]).await?;
            let name = [(&self.name as &(dyn ToSql + Sync), Type::TEXT)];
            let wish = client.query_typed_opt("SELECT drain FROM node WHERE id = $1", &name).await?;
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&self.name, Type::TEXT), (&custodies, Type::TEXT_ARRAY)];
            let workspaces = client.query_typed(WORKSPACES, &values).await?;
            client.batch_execute("COMMIT").await?;
            Ok(Rows {
                members: nodes.iter().map(member).collect::<Found<_>>()?,
                workspaces: workspaces
                    .iter()
                    .map(|row| Ok((id(row, 0)?, (ownership(row)?, column(row, 5)?))))
                    .collect::<Found<_>>()?,
                is_drain_wanted: wish.as_ref().map_or(Ok(false), |row| column(row, 0))?,
            })
        };
        let rows = self.finish(work).await?;
        *place = Some(client);
        Ok(rows)
    }

    async fn read_row(
        &self,
        workspace: &WorkspaceId,
        directory: Option<&str>,
    ) -> Result<Ownership<String>, Error> {
        let mut place = self.changes.lock().await;
        let client = self.take(&mut place).await?;
        let work = async {
            // A session without a row is one of a server that had the database for itself.
            let sql = "INSERT INTO workspace (id, home, epoch, path) SELECT $1, $2, baton.floor(), $3
                WHERE NOT EXISTS (SELECT FROM session WHERE workspace = $1) OR EXISTS (SELECT FROM workspace WHERE id = $1)
                ON CONFLICT (id) DO UPDATE SET path = excluded.path
                    WHERE workspace.path IS NULL AND excluded.path IS NOT NULL";
            let directory = directory.map(storable);
            let values: [(&(dyn ToSql + Sync), Type); 3] =
                [(&workspace.as_str(), Type::TEXT), (&self.name, Type::TEXT), (&directory, Type::TEXT)];
            execute(&client, sql, &values).await?;
            let sql = "SELECT id, home, owner, epoch, custody FROM workspace WHERE id = $1";
            let row = client.query_typed_opt(sql, &[(&workspace.as_str(), Type::TEXT)]).await?;
            row.as_ref().map(ownership).transpose()
        };
        let row = self.finish(work).await?;
        *place = Some(client);
        row.ok_or_else(|| of_no_node(workspace))
    }

    async fn read_home(&self, workspace: &WorkspaceId) -> Result<Option<HomeNode>, Error> {
        let sql = "SELECT home, coalesce(node.incarnation, 0), coalesce(node.address, ''), coalesce(node.state, 'dead'),
                EXISTS (SELECT FROM session WHERE workspace = $1)
            FROM (SELECT) AS one LEFT JOIN workspace ON workspace.id = $1 LEFT JOIN node ON node.id = home";
        let rows = self.question(sql, &[(&workspace.as_str(), Type::TEXT)]).await?;
        let row = rows.first().map(home).transpose().map_err(|fault| self.failed(&fault))?;
        match row.unwrap_or_default() {
            (None, true) => Err(of_no_node(workspace)),
            (home, _) => Ok(home),
        }
    }

    async fn read_elsewhere(&self, directory: &str) -> Result<Vec<WorkspaceId>, Error> {
        let sql = "SELECT id FROM workspace WHERE path = $1 AND home IS DISTINCT FROM $2 ORDER BY id";
        let rows =
            self.question(sql, &[(&storable(directory), Type::TEXT), (&self.name, Type::TEXT)]).await?;
        let ids: Found<Vec<_>> = rows.iter().map(|row| id(row, 0)).collect();
        ids.map_err(|fault| self.failed(&fault))
    }

    pub(super) async fn question(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, Error> {
        let mut place = self.questions.lock().await;
        let client = match place.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.target.reader().await.map_err(|fault| self.failed(&fault))?,
        };
        let rows = self.finish(async { Ok(client.query_typed(sql, values).await?) }).await?;
        *place = Some(client);
        Ok(rows)
    }
}

fn of_no_node(workspace: &WorkspaceId) -> Error {
    let message = format!("the workspace {workspace} belongs to a server without a node name");
    Error::new(StoreFailure::Fenced, message)
}

impl NodeRecord for Nodes {
    fn apply(&self, transaction: Transaction) -> StoreFuture<'_, Ruling> {
        Box::pin(async move {
            match transaction {
                Transaction::Beat { by } => self.beat(&by).await,
                transaction => self.change(transaction).await,
            }
        })
    }

    fn look(&self, custodies: Vec<WorkspaceId>) -> StoreFuture<'_, Rows> {
        Box::pin(self.read(custodies))
    }

    fn row<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        directory: Option<&'a str>,
    ) -> StoreFuture<'a, Ownership<String>> {
        Box::pin(self.read_row(workspace, directory))
    }

    fn home<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Option<HomeNode>> {
        Box::pin(self.read_home(workspace))
    }

    fn elsewhere<'a>(&'a self, directory: &'a str) -> StoreFuture<'a, Vec<WorkspaceId>> {
        Box::pin(self.read_elsewhere(directory))
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<FleetNode>> {
        Box::pin(async { overview::read(&self.question(overview::NODES, &[]).await?, overview::node, self) })
    }

    fn workspaces(&self) -> StoreFuture<'_, Vec<FleetWorkspace>> {
        Box::pin(async {
            overview::read(&self.question(overview::WORKSPACES, &[]).await?, overview::workspace, self)
        })
    }

    fn drain<'a>(&'a self, node: &'a str, wanted: bool) -> StoreFuture<'a, bool> {
        Box::pin(self.wish(node, wanted))
    }
}

const NODES: &str = "SELECT id, incarnation, writer, beat, state FROM node";

/// The workspaces that a node has to decide about: its own, those that it owns or believes to own, and those of nodes that
/// are gone.
const WORKSPACES: &str = "SELECT id, home, owner, epoch, custody, id IN (
        SELECT session.workspace FROM (SELECT session FROM status UNION SELECT session FROM prompt) AS busy
        JOIN session ON session.id = busy.session)
    FROM workspace WHERE home = $1 OR owner = $1 OR home IS NULL OR id = ANY ($2)
        OR EXISTS (SELECT FROM node WHERE node.id IN (home, owner) AND node.state = 'dead')";

/// The condition of a claim is that of [`engine::fleet::Record`].
const CLAIM: &str = "UPDATE workspace SET owner = $1, epoch = epoch + 1, custody = $4
    WHERE id = $2 AND epoch = $3 AND CASE
        WHEN home IS NULL OR home = $1 THEN NOT $4 AND (owner IS NULL OR owner = $1
            OR (custody AND home = $1) OR NOT EXISTS (SELECT FROM node WHERE id = owner AND state <> 'dead'))
        ELSE $4 AND NOT EXISTS (SELECT FROM node WHERE id = home AND state <> 'dead')
            AND (owner IS NULL OR owner = $1
                OR NOT EXISTS (SELECT FROM node WHERE id = owner AND state <> 'dead'))
        END RETURNING epoch";

async fn claim(
    client: &Client,
    by: &str,
    workspace: &WorkspaceId,
    epoch: u64,
    custody: bool,
) -> Found<Ruling> {
    let epoch = number(epoch);
    let values: [(&(dyn ToSql + Sync), Type); 4] =
        [(&by, Type::TEXT), (&workspace.as_str(), Type::TEXT), (&epoch, Type::INT8), (&custody, Type::BOOL)];
    let row = client.query_typed_opt(CLAIM, &values).await?;
    row.map_or(Ok(Ruling::Refused(Refusal::Changed)), |row| Ok(Ruling::Claimed { epoch: count(&row, 0)? }))
}

async fn execute(client: &Client, sql: &str, values: Values<'_>) -> Found<u64> {
    Ok(client.execute_typed(sql, values).await?)
}

fn identity<'a>(by: &'a Identity<String>, incarnation: &'a i64) -> [(&'a (dyn ToSql + Sync), Type); 2] {
    [(&by.node, Type::TEXT), (incarnation, Type::INT8)]
}

fn done_if(condition: bool, refusal: Refusal) -> Ruling {
    if condition { Ruling::Done } else { Ruling::Refused(refusal) }
}

/// The node with the files of a workspace, and true if sessions have used it.
fn home(row: &Row) -> Found<(Option<HomeNode>, bool)> {
    let node: Option<String> = column(row, 0)?;
    let (incarnation, address) = (count(row, 1)?, column::<String>(row, 2)?);
    let state = state(column(row, 3)?);
    let home = node.map(|node| HomeNode { peer: Peer { node, incarnation, address }, state });
    Ok((home, column(row, 4)?))
}

fn state(text: &str) -> State {
    match text {
        "up" => State::Up,
        "draining" => State::Draining,
        _ => State::Dead,
    }
}

fn member(row: &Row) -> Found<(String, Member)> {
    let state = state(column(row, 4)?);
    let member = Member { incarnation: count(row, 1)?, writer: count(row, 2)?, beat: count(row, 3)?, state };
    Ok((column(row, 0)?, member))
}

/// An owner from the columns after the id: home, owner, epoch, custody.
fn ownership(row: &Row) -> Found<Ownership<String>> {
    Ok(Ownership {
        kind: column::<Option<String>>(row, 1)?.map_or(Kind::Shared, Kind::Own),
        owner: column(row, 2)?,
        epoch: count(row, 3)?,
        custody: column(row, 4)?,
    })
}
