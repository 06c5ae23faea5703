//! The inputs of a node's protocol, and the effects that it asks for.

use std::{collections::BTreeMap, time::Duration};

use super::record::{Identity, Member, Ownership, Refusal, Ruling, Transaction};

/// A workspace or a duty as one look shows it to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldingView<N> {
    pub row: Ownership<N>,
    /// Work is left in it: a session that is not idle, or a prompt that waits.
    pub is_unfinished: bool,
    /// The node's rank in the order of placement; none if it must not claim (draining, full, no such volume).
    pub rank: Option<u32>,
}

/// One look: every row of the fleet, from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View<N: Ord, H: Ord> {
    pub members: BTreeMap<N, Member>,
    pub holdings: BTreeMap<H, HoldingView<N>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<N: Ord, H: Ord> {
    /// Time has passed and nothing else happened.
    Tick,
    /// A transaction was answered. The caller drops the answers of a connection that it has reported as lost.
    Answered(Transaction<N, H>, Ruling),
    /// A transaction may or may not have happened, now or later.
    Lost(Transaction<N, H>),
    Looked(View<N, H>),
    LookFailed,
    /// A client uses a holding that no living node owns.
    Use(H, HoldingView<N>),
    /// The repair of a holding's sessions was committed.
    Adopted {
        holding: H,
        epoch: u64,
    },
    /// A holding is given back: its last commit has an outcome and its kept agents are stopped.
    GiveBack(H),
    /// A runner asks to begin a tool whose admission is committed.
    Begin {
        holding: H,
        epoch: u64,
    },
    /// The fence of a commit has failed.
    Fenced {
        by: Identity<N>,
        holding: H,
        epoch: u64,
        why: Refusal,
    },
    /// The user or a signal asks the node to take no new work.
    Drain,
}

/// Actions for the caller, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<N, H> {
    Send(Transaction<N, H>),
    /// Read all rows in one snapshot.
    Look,
    /// Tell the watchdog to kill the tools of shared holdings after this time, unless it is told again. It is the rest
    /// of the lease: a watchdog with a period of its own would begin to count when the lease is almost over.
    Guard(Duration),
    /// Repair the sessions of a holding as after a crash, then run what waits (in custody: run nothing). A commit in
    /// doubt could still change a session, so its outcome comes first. Repeated with each look until
    /// [`Input::Adopted`]; the caller ignores it while the repair is under way.
    Adopt {
        holding: H,
        epoch: u64,
        custody: bool,
    },
    /// Stop the actors of a holding and publish nothing: another node owns it, and only that node's events count.
    Quit(H),
    /// Publish nothing, begin nothing, cancel the runners of shared holdings and kill their processes.
    StepBack,
    /// The lease holds again.
    GoOn,
    /// Stop all actors, publish nothing, kill their processes and end all streams with an error.
    StartOver,
    /// Start the tool.
    Begin(H),
    /// Do not start the tool: the right to act is gone or in doubt.
    Refuse(H),
}
