//! The one task that writes.
//!
//! Commits that wait while a transaction runs are written together in the next one. After the transaction the observer
//! receives the events, then the commits are acknowledged.
//!
//! A lost connection leaves the outcome of a group unknown. The writer connects again and takes the node's lock; then
//! the old session has ended, and the newest position of the log shows whether the group was committed. Only this
//! process can have written in between, because the lock and the token keep others out. A node of a fleet looks for an
//! event of the group instead, once the number of the new connection has shut out the old one.

use std::{sync::Arc, time::Duration};

use engine::ports::{Clock, Error, Observer, StoreFailure};
use protocol::ApprovalId;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use super::{
    batch::Batch,
    connect::{LOCK_LOG, Target, Token},
    failure::{self, Fault},
    flight::{self, Probe},
    note, outbox, query,
    query::Found,
    retention::Retention,
    tail::Tail,
    text::storable,
};
use crate::{
    change::Prepared,
    stats::Stats,
    work::{Reply, Work, gather},
};

/// Time for one transaction. The server's own timeouts are shorter.
const TRANSACTION: Duration = Duration::from_secs(15);

/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(250);

/// Number of times that a group is sent again after its connection was lost.
const ATTEMPTS: usize = 3;

/// Interval at which an idle writer looks for expired events.
const IDLE: Duration = Duration::from_mins(10);

/// Positions of one generation.
const GENERATION: u64 = 1 << 40;

/// The surroundings of a writer.
pub(super) struct Ports {
    pub(super) observer: Arc<dyn Observer>,
    /// Publishes the commits of all nodes in their order; `None` if this server has the database for itself.
    pub(super) tail: Option<Arc<Tail>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stats: Arc<Stats>,
    pub(super) retention: Retention,
    /// Time that commits wait for a lost database.
    pub(super) patience: Duration,
}

/// The state of the writer's task.
pub(super) struct Writer {
    pub(super) target: Target,
    pub(super) ports: Ports,
    /// `None` while the database cannot be reached.
    client: Option<Client>,
    token: Token,
    /// Orphaned events of this connection.
    orphans: u64,
    /// The newest position that this writer has published.
    pub(super) position: u64,
    pub(super) doubt: Doubt,
    outage: Option<Outage>,
    /// The reason why this process can never write again.
    ended: Option<Error>,
}

/// Events whose commit was lost together with its connection.
#[derive(Default)]
pub(super) struct Doubt {
    pub(super) events: u64,
    /// Finds the events among those of other nodes.
    probe: Option<Probe>,
    /// Their commits, once the callers have received an error. They are published if they turn out to be stored.
    pub(super) commits: Vec<Prepared>,
    /// The position before the events, if they turned out to be stored.
    landed: Option<u64>,
}

struct Outage {
    since: Instant,
    tried: Instant,
    error: Error,
}

impl Writer {
    /// A writer that continues after `position`, the newest of the log.
    pub(super) fn new(target: Target, (client, token): (Client, Token), ports: Ports, position: u64) -> Self {
        Self {
            target,
            ports,
            client: Some(client),
            token,
            orphans: 0,
            position,
            doubt: Doubt::default(),
            outage: None,
            ended: None,
        }
    }

    /// Works until all senders are gone. Dropping the connection then releases the lock.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Work>) {
        loop {
            let is_down = self.client.is_none() && self.ended.is_none();
            let pause = if is_down { RETRY * 4 } else { IDLE };
            match timeout(pause, jobs.recv()).await {
                Ok(Some(first)) => {
                    let mut group = gather(first, || jobs.try_recv().ok(), Work::bytes, &self.ports.stats);
                    while !group.is_empty() {
                        self.step(&mut group).await;
                    }
                    self.tidy(false).await;
                }
                Ok(None) => return,
                // Looks for the database without being asked, so that commits in doubt are published.
                Err(_) if is_down => drop(self.ensure(false).await),
                Err(_) => self.tidy(true).await,
            }
        }
    }

    /// Carries out the first jobs: as many as one transaction can take.
    async fn step(&mut self, group: &mut Vec<Work>) {
        let count = fold(group).1;
        let rest = group.split_off(count.max(1).min(group.len()));
        let jobs = std::mem::replace(group, rest);
        if count == 0 {
            return self.carry_out_special(jobs).await;
        }
        let Err((fault, jobs)) = self.carry_out(jobs).await else { return };
        if jobs.len() == 1 {
            let error = failure::failed(&self.target.server, "writing to", &fault);
            return self.refuse(jobs, &error);
        }
        // The job at fault must not fail the others.
        for job in jobs {
            if let Err((fault, jobs)) = self.carry_out(vec![job]).await {
                let error = failure::failed(&self.target.server, "writing to", &fault);
                self.refuse(jobs, &error);
            }
        }
    }

    /// Writes commits and checkpoints in one transaction, and reports the result unless the database refused it.
    async fn carry_out(&mut self, jobs: Vec<Work>) -> Result<(), (Fault, Vec<Work>)> {
        for _ in 0..ATTEMPTS {
            if let Err(error) = self.ensure(true).await {
                self.refuse(jobs, &error);
                return Ok(());
            }
            let Some(client) = &self.client else { continue };
            let batch = fold(&jobs).0;
            let events = batch.events.len() as u64;
            let writing =
                flight::write(client, &self.token, &batch, &mut self.orphans, self.ports.clock.now());
            let written = timeout(TRANSACTION, writing).await.unwrap_or(Err(Fault::Late));
            match written {
                Ok(before) => {
                    self.ports.stats.transaction();
                    self.report(jobs, before).await;
                    return Ok(());
                }
                Err(fault) if fault.is_lost() => {
                    tracing::warn!(server = %self.target.server, %fault, "lost the connection to the database");
                    let probe = Probe::of(&batch, &self.token, self.orphans);
                    self.client = None;
                    (self.doubt.events, self.doubt.probe) = (events, probe);
                    let connected = self.ensure(true).await;
                    if let Some(before) = self.doubt.landed.take() {
                        self.report(jobs, before).await;
                        return Ok(());
                    }
                    if let Err(error) = connected {
                        self.give_up(jobs, &error);
                        return Ok(());
                    }
                }
                Err(fault) => {
                    self.note_end(&fault);
                    return Err((fault, jobs));
                }
            }
        }
        Err((Fault::Late, jobs))
    }

    /// Connects if necessary. With `patient`, waits for the database until the outage has lasted the limit.
    async fn ensure(&mut self, patient: bool) -> Result<(), Error> {
        loop {
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            if self.client.as_ref().is_some_and(|client| !client.is_closed()) {
                return Ok(());
            }
            self.client = None;
            if let Some(outage) = &self.outage
                && outage.since.elapsed() >= self.ports.patience
                && outage.tried.elapsed() < RETRY
            {
                return Err(outage.error.clone());
            }
            let Err(fault) = self.connect().await else { continue };
            let error = failure::failed(&self.target.server, "connecting to", &fault);
            let now = Instant::now();
            let since = self.outage.as_ref().map_or(now, |outage| outage.since);
            if self.outage.is_none() {
                tracing::error!(%error, "the database cannot be reached; retrying");
            }
            self.outage = Some(Outage { since, tried: now, error: error.clone() });
            if !patient || since.elapsed() >= self.ports.patience {
                return Err(error);
            }
            sleep(RETRY).await;
        }
    }

    /// Connects again, and decides whether the events in doubt are stored.
    async fn connect(&mut self) -> Result<(), Fault> {
        let server = self.target.server.clone();
        let opening = timeout(TRANSACTION, self.target.reopen(&self.token));
        let Some((client, token)) = opening.await.unwrap_or(Err(Fault::Late))? else {
            let message = if self.token.is_single() {
                format!(
                    "another server has taken over {server}; restart this server after that one has stopped"
                )
            } else {
                format!("the other nodes of {server} have declared this node dead; restart it")
            };
            self.end(StoreFailure::Fenced, message);
            return Ok(());
        };
        let settling = timeout(TRANSACTION, self.settle(&client));
        if let Some(problem) = settling.await.unwrap_or(Err(Fault::Late))? {
            self.end(StoreFailure::Unavailable, problem);
            return Ok(());
        }
        if self.outage.take().is_some() {
            tracing::info!(%server, "the database can be reached again");
        }
        (self.client, self.token, self.orphans) = (Some(client), token, 0);
        Ok(())
    }

    /// Decides on a new connection whether the events in doubt are stored. Returns the reason why this process cannot
    /// continue, if there is one.
    async fn settle(&mut self, client: &Client) -> Found<Option<String>> {
        let server = &self.target.server;
        // The published position comes first: other nodes make the log longer meanwhile.
        let (known, newest) = match &self.ports.tail {
            Some(tail) => (tail.last().await, query::end(client).await?),
            None => (self.position, query::bounds(client).await?.1),
        };
        if newest < known {
            begin_generation(client, newest, self.ports.tail.is_some()).await?;
            return Ok(Some(format!(
                "{server} has lost acknowledged commits (its log ends at {newest}, this server has published {known}), \
                 probably in a failover without synchronous replication; restart this server"
            )));
        }
        let landed = match (&self.ports.tail, &self.doubt.probe) {
            (Some(_), Some(probe)) => probe.find(client).await?,
            (Some(_), None) => None,
            (None, _) => {
                (self.doubt.events > 0 && newest == known + self.doubt.events).then_some(self.position)
            }
        };
        if self.ports.tail.is_none() && landed.is_none() && newest > known {
            return Ok(Some(format!("{server} was changed by another program; restart this server")));
        }
        let doubt = std::mem::take(&mut self.doubt);
        if doubt.commits.is_empty() {
            self.doubt.landed = landed;
        } else if landed.is_some() && self.ports.tail.is_none() {
            for commit in doubt.commits {
                self.publish(commit);
            }
        }
        Ok(None)
    }

    fn note_end(&mut self, fault: &Fault) {
        if fault.is_final() {
            self.client = None;
            let error = failure::failed(&self.target.server, "writing to", fault);
            self.end(error.failure, error.message);
        }
    }

    /// Stops writing permanently.
    fn end(&mut self, failure: StoreFailure, message: String) {
        tracing::error!("{message}");
        self.ended = Some(Error::new(failure, message));
    }

    /// Carries out jobs that need answers of the database between their statements.
    async fn carry_out_special(&mut self, jobs: Vec<Work>) {
        for job in jobs {
            if let Err(error) = self.ensure(true).await {
                self.refuse(vec![job], &error);
                continue;
            }
            let Some(client) = &self.client else { continue };
            let token = &self.token;
            let fault = match job {
                Work::Note { project, newer, reply } => answer(
                    reply,
                    guarded(client, token, note::amend(client, &project, newer)).await,
                    &self.target,
                ),
                Work::Forget { approval, reply } => {
                    answer(reply, guarded(client, token, forget(client, &approval)).await, &self.target)
                }
                Work::Outbox { change, reply } => {
                    answer(reply, guarded(client, token, outbox::write(client, &change)).await, &self.target)
                }
                // Every group takes at least one commit or checkpoint.
                _ => None,
            };
            if let Some(fault) = fault {
                if fault.is_lost() {
                    self.client = None;
                }
                self.note_end(&fault);
            }
        }
    }

    /// Removes expired events, batch by batch. An idle writer removes all, a busy one a batch between two groups.
    async fn tidy(&mut self, idle: bool) {
        loop {
            let Some(client) = &self.client else { return };
            if !self.ports.retention.is_due(self.position, idle) {
                return;
            }
            let trim = self.ports.retention.trim(
                client,
                self.position,
                self.ports.clock.now(),
                !self.token.is_single(),
            );
            match guarded(client, &self.token, trim).await {
                Ok(trimmed) => self.ports.stats.trimmed(trimmed),
                Err(fault) => {
                    // Retried with a later commit; until then the log is a little too long.
                    tracing::warn!(server = %self.target.server, %fault, "failed to remove old events; will retry");
                    if fault.is_lost() {
                        self.client = None;
                    }
                    return;
                }
            }
            if !(idle && self.ports.retention.has_more()) {
                return;
            }
        }
    }
}

/// The net effect of the first jobs, and the number of jobs that it contains: as many as one transaction can take.
fn fold(jobs: &[Work]) -> (Batch<'_>, usize) {
    let mut batch = Batch::default();
    for (count, job) in jobs.iter().enumerate() {
        match job {
            Work::Append { commits, .. } if commits.iter().all(|commit| batch.admits(commit)) => {
                for commit in commits {
                    batch.add(commit);
                }
            }
            Work::Checkpoint { fence, parts, .. } if batch.fits(fence.workspace.as_str(), fence.epoch) => {
                batch.checkpoint(fence, parts);
            }
            _ => return (batch, count),
        }
    }
    (batch, jobs.len())
}

/// Runs a change in a transaction of its own that proves the writer's identity first.
async fn guarded<T>(client: &Client, token: &Token, change: impl Future<Output = Found<T>>) -> Found<T> {
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&&*token.node, Type::TEXT),
        (&token.incarnation, Type::INT8),
        (&token.writer, Type::INT8),
        (&token.backend, Type::INT4),
    ];
    let work = async {
        client.batch_execute("BEGIN").await?;
        client.query_typed("SELECT baton.fence($1, $2, $3, $4)", &values).await?;
        let changed = change.await?;
        client.batch_execute("COMMIT").await?;
        Ok(changed)
    };
    let done = timeout(TRANSACTION, work).await.unwrap_or(Err(Fault::Late));
    if let Err(fault) = &done
        && !fault.is_lost()
    {
        timeout(TRANSACTION, client.batch_execute("ROLLBACK")).await.map_err(|_| Fault::Late)??;
    }
    done
}

/// Deletes an approval; returns true if it existed.
async fn forget(client: &Client, approval: &ApprovalId) -> Found<bool> {
    let sql = "DELETE FROM approval WHERE id = $1";
    Ok(client.execute_typed(sql, &[(&storable(approval.as_str()), Type::TEXT)]).await? > 0)
}

/// Sends the result to the caller and returns the fault, if there is one.
fn answer<T>(reply: Reply<T>, done: Found<T>, target: &Target) -> Option<Fault> {
    match done {
        Ok(done) => {
            let _ = reply.send(Ok(done));
            None
        }
        Err(fault) => {
            let _ = reply.send(Err(failure::failed(&target.server, "writing to", &fault)));
            Some(fault)
        }
    }
}

/// Begins a new generation, so that no position is used twice after the database has lost commits. In a fleet it also
/// raises every number that fences a commit, because changes of ownership may be lost too: all nodes start over.
async fn begin_generation(client: &Client, newest: u64, is_fleet: bool) -> Found<()> {
    client.batch_execute(&format!("BEGIN; {LOCK_LOG}")).await?;
    let sql = "WITH ended AS (UPDATE generation SET ended_at = $1 WHERE ended_at IS NULL)
        INSERT INTO generation (number, first)
        SELECT max(number) + 1, (max(number) + 1) * $2 + 1 FROM generation";
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&query::number(newest), Type::INT8), (&query::number(GENERATION), Type::INT8)];
    client.execute_typed(sql, &values).await?;
    if is_fleet {
        let raise = "UPDATE node SET incarnation = baton.floor(), writer = baton.floor();
            UPDATE workspace SET epoch = baton.floor()";
        client.batch_execute(raise).await?;
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}
