//! This server as a node of a fleet: it shares its database with other servers.

use std::{sync::Arc, time::Duration};

use engine::{
    Sessions,
    fleet::Terms,
    member::Member,
    ports::{Alone, Stopwatch},
};
use protocol::config::Config;
use rustix::time::{ClockId, clock_gettime};
use store::{
    files::{Environment, Places},
    postgres::Nodes,
    sqlite::Reservation,
};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{Unavailable, record, users};
use crate::{
    args::Engine as Options,
    exit::{Failure, chain},
};

/// The lease of all nodes. It is no option: two nodes with different leases would disagree about a death.
const LEASE: Terms = Terms { length: Duration::from_secs(6) };

/// Length of the longest name.
const LONGEST: usize = 63;

/// Time for a node that stops to give its directories back.
const RELEASE: Duration = Duration::from_millis(500);

/// The name of this node and the URL at which the others reach it.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) address: String,
}

/// Checks the name of a node. It appears in URLs and in lists.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let begins_well = name.starts_with(|it: char| it.is_ascii_alphanumeric());
    if begins_well && name.len() <= LONGEST && name.chars().all(is_plain) && name != Alone::NODE {
        return Ok(());
    }
    Err(Failure::usage(format!("\"{name}\" cannot be the name of a node")).hint(format!(
        "use at most {LONGEST} letters, digits, \"-\", \"_\" and \".\", beginning with a letter or a digit, and not \"{}\"",
        Alone::NODE
    )))
}

/// A process that is registered as a node.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) member: Arc<Member>,
    /// The address of the database.
    pub(super) url: String,
    /// Keeps a second server out of the data directory.
    pub(super) reservation: Reservation,
}

/// Registers this process as a node. Refuses everything that would happen once for each node.
pub(super) async fn join(
    options: &Options,
    places: &Places,
    environment: &Environment,
    identity: &Identity,
) -> Result<Joined, Unavailable> {
    let Some(url) = record::url(options) else {
        let failure = Failure::usage("--node needs the database that the nodes share");
        return Err(failure.hint("set --store or BATON_STORE to postgres://USER@HOST/DATABASE").into());
    };
    let user = users::user_config(environment).await?;
    if !users::receivers(&user, &Config::default())?.is_empty() {
        let failure =
            Failure::usage("a node sends no webhooks yet, because every node would send each notice");
        return Err(failure
            .hint("remove `webhook` from the configuration of this node, or start one server without --node")
            .into());
    }
    let reservation = record::reserve(places)?;
    let opened = Nodes::open(&url, &identity.name, &identity.address, env!("CARGO_PKG_VERSION"));
    let nodes = Box::pin(opened).await.map_err(|error| Failure::usage(chain(&error)))?;
    let joined = Member::join(&identity.name, LEASE, nodes, Arc::new(SinceBoot)).await;
    let member = joined.map_err(|error| {
        Failure::error(format!("cannot join the other nodes of the database: {}", chain(&error)))
    })?;
    Ok(Joined { member, url, reservation })
}

/// A node at work.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) member: Arc<Member>,
    keeping: JoinHandle<()>,
    lost: CancellationToken,
}

impl Node {
    /// Repairs the sessions of the node's directories and begins to keep the node in its fleet. `first` is the position
    /// after which the log publishes.
    pub(super) async fn start(sessions: &Sessions, member: Arc<Member>, first: u64) -> Result<Self, Failure> {
        sessions.recover_node(&member, first).await.map_err(|error| {
            Failure::error(format!("the sessions in the database cannot be read: {}", chain(&error)))
        })?;
        let lost = CancellationToken::new();
        let (sessions, kept, finding) = (sessions.clone(), Arc::clone(&member), lost.clone());
        let keeping = tokio::spawn(async move {
            sessions.keep(&kept).await;
            sessions.abandon();
            finding.cancel();
        });
        Ok(Self { member, keeping, lost })
    }

    /// Waits until the other nodes have declared this one dead. Its sessions publish nothing from then on.
    pub(crate) async fn lost(&self) -> Failure {
        self.lost.cancelled().await;
        let name = self.member.name();
        Failure::lost(format!(
            "the other nodes have declared the node {name} dead, because it did not answer for {} s; they have ended its turns",
            LEASE.length.as_secs()
        ))
        .hint("start it again; a supervisor should do that at once")
    }

    /// Stops to take part. Called when no turn runs any more.
    pub(super) async fn close(&self) {
        self.keeping.abort();
        if timeout(RELEASE, self.member.release()).await.is_err() {
            tracing::debug!("the directories of this node were not given back in time");
        }
    }
}

/// The clock of the system that runs on while the machine is suspended.
#[derive(Debug)]
struct SinceBoot;

impl Stopwatch for SinceBoot {
    fn elapsed(&self) -> Duration {
        let time = clock_gettime(CLOCK);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
    }
}

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
/// The monotonic clock of other systems counts time in suspend.
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stopwatch_runs_as_the_kernel_counts_and_also_in_suspend() {
        let first = SinceBoot.elapsed();
        assert!(SinceBoot.elapsed() >= first);
        #[cfg(target_os = "linux")]
        {
            // `/proc/uptime` includes time in suspend; CLOCK_MONOTONIC does not.
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let uptime: f64 = text.split_whitespace().next().unwrap().parse().unwrap();
            assert!((SinceBoot.elapsed().as_secs_f64() - uptime).abs() < 1.0, "{uptime}");
        }
    }

    #[test]
    fn names_are_plain_and_not_reserved() {
        for good in ["a", "node-1", "eu.west_2", "7"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "a".repeat(LONGEST + 1);
        for bad in ["", "single", "-a", ".a", "a b", "a/b", "ä", &long] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
