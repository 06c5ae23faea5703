//! Planted mistakes: an exploration that finds none of them would prove nothing.
//!
//! Each one changes what the model does around the protocol (or undoes part of a transaction's result), so the
//! protocol itself has no switch for tests.

use super::{
    database::{Commit, OWN, SHARED, TestTransaction, What},
    explore::{Reach, Scene, Sizes, explore},
};
use crate::fleet::{Record, Refusal, Ruling, Transaction, lease::Seen};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mistake {
    NoFenceOnCheckpoint,
    NoIncarnationFence,
    NoWriterFence,
    NoEpochFence,
    /// The fence is checked before the log lock is taken.
    FenceOutsideLock,
    /// Positions come from a sequence object.
    NumbersFromSequence,
    ClaimWithoutCompare,
    ClaimKeepsEpoch,
    ReleaseWithoutCompare,
    DeclareWithoutCompare,
    /// A node that was declared dead keeps its incarnation, so its beats still succeed.
    DeadKeepsIncarnation,
    RestartKeepsIncarnation,
    /// A new connection does not shut out the one before.
    ConnectKeepsWriter,
    /// A commit in doubt is looked up over the next connection that is at hand, without a new number.
    ProbeWithoutConnect,
    /// The node measures its lease with a clock that stands still while the machine is suspended.
    ClockStopsInSuspend,
    /// The node measures its lease from the answer to a beat.
    LeaseFromAnswer,
    /// The watchdog begins its count when it last heard from the server, not when the beat was sent.
    WatchdogFromLastHeard,
    ToolBeforeAdmission,
    /// A node that loses a session says idle.
    LiveIdleOnGivingUp,
    LiveAfterIdle,
    /// Only the start repairs sessions, and a takeover does not.
    RecoveryAtStartOnly,
    /// A repair whose commit failed is not repeated.
    AdoptsOnce,
    /// A session is loaded while an own commit may still change it.
    AdoptsInDoubt,
    RetryWithNewId,
    /// The tail publishes an own commit while others lie before it.
    TailSkips,
    CustodyRunsTurns,
    FailoverKeepsFences,
    NoGeneration,
}

impl Mistake {
    /// Replaces what a transaction compares by what the database holds.
    pub(super) fn loosen(self, transaction: TestTransaction, record: &Record<u8, u8>) -> TestTransaction {
        match (self, transaction) {
            (Self::DeclareWithoutCompare, Transaction::Declare { by, node, .. }) => {
                let member = record.members[&node];
                let seen = Seen { incarnation: member.incarnation, beat: member.beat };
                Transaction::Declare { by, node, seen }
            }
            (Self::ClaimWithoutCompare, Transaction::Claim { by, holding, custody, .. }) => {
                Transaction::Claim { by, holding, epoch: record.holdings[&holding].epoch, custody }
            }
            (_, transaction) => transaction,
        }
    }

    /// Undoes or forces a part of what a transaction has done.
    pub(super) fn damage(
        self,
        transaction: &TestTransaction,
        answer: Ruling,
        before: &Record<u8, u8>,
        record: &mut Record<u8, u8>,
    ) -> Ruling {
        match (self, transaction, answer) {
            (Self::ClaimWithoutCompare, Transaction::Claim { by, holding, custody, .. }, _) => {
                let Some(row) = record.holdings.get_mut(holding) else { return answer };
                row.epoch = before.holdings[holding].epoch + 1;
                (row.owner, row.custody) = (Some(by.node), *custody);
                Ruling::Claimed { epoch: row.epoch }
            }
            (Self::ClaimKeepsEpoch, Transaction::Claim { holding, .. }, Ruling::Claimed { .. }) => {
                let epoch = before.holdings[holding].epoch;
                record.holdings.entry(*holding).and_modify(|row| row.epoch = epoch);
                Ruling::Claimed { epoch }
            }
            (Self::ReleaseWithoutCompare, Transaction::Release { holding, .. }, _) => {
                record.holdings.entry(*holding).and_modify(|row| row.owner = None);
                Ruling::Done
            }
            (Self::DeadKeepsIncarnation, Transaction::Declare { node, .. }, Ruling::Done) => {
                record.members.entry(*node).and_modify(|member| member.incarnation -= 1);
                answer
            }
            (
                Self::RestartKeepsIncarnation,
                Transaction::Register { node },
                Ruling::Registered { incarnation },
            ) if before.members.contains_key(node) => {
                record.members.entry(*node).and_modify(|member| member.incarnation -= 1);
                Ruling::Registered { incarnation: incarnation - 1 }
            }
            (Self::ConnectKeepsWriter, Transaction::Connect { by }, Ruling::Connected { writer })
                if writer > 1 =>
            {
                record.members.entry(by.node).and_modify(|member| member.writer -= 1);
                Ruling::Connected { writer: writer - 1 }
            }
            _ => answer,
        }
    }

    /// Lets a commit pass that its fence has refused.
    pub(super) fn ignore(self, checked: Result<(), Refusal>, commit: &Commit) -> Result<(), Refusal> {
        match (self, checked) {
            (Self::NoFenceOnCheckpoint, _) if commit.what == What::Checkpoint => Ok(()),
            (Self::NoIncarnationFence, Err(Refusal::Dead))
            | (Self::NoWriterFence, Err(Refusal::Writer))
            | (Self::NoEpochFence, Err(Refusal::Changed)) => Ok(()),
            (_, checked) => checked,
        }
    }

    /// Tells if the part of a commit before the log lock is a step of its own.
    pub(super) fn splits_commits(self) -> bool {
        matches!(self, Self::FenceOutsideLock | Self::NumbersFromSequence)
    }
}

impl Mistake {
    const ALL: [Self; 28] = [
        Self::NoFenceOnCheckpoint,
        Self::NoIncarnationFence,
        Self::NoWriterFence,
        Self::NoEpochFence,
        Self::FenceOutsideLock,
        Self::NumbersFromSequence,
        Self::ClaimWithoutCompare,
        Self::ClaimKeepsEpoch,
        Self::ReleaseWithoutCompare,
        Self::DeclareWithoutCompare,
        Self::DeadKeepsIncarnation,
        Self::RestartKeepsIncarnation,
        Self::ConnectKeepsWriter,
        Self::ProbeWithoutConnect,
        Self::ClockStopsInSuspend,
        Self::LeaseFromAnswer,
        Self::WatchdogFromLastHeard,
        Self::ToolBeforeAdmission,
        Self::LiveIdleOnGivingUp,
        Self::LiveAfterIdle,
        Self::RecoveryAtStartOnly,
        Self::AdoptsOnce,
        Self::AdoptsInDoubt,
        Self::RetryWithNewId,
        Self::TailSkips,
        Self::CustodyRunsTurns,
        Self::FailoverKeepsFences,
        Self::NoGeneration,
    ];
}

impl Mistake {
    /// The smallest scene that the mistake spoils.
    fn scene(self) -> Scene {
        let none = Sizes { faulty: 1, ..Sizes::default() };
        let lost = Sizes { losses: 1, prompts: 2, ..none };
        let crash = Sizes { crashes: 1, starts: 1, ticks: 1, ..none };
        let pause = Sizes { pauses: 1, ticks: 4, ..none };
        match self {
            Self::NoFenceOnCheckpoint => Scene::busy(SHARED, Sizes { checkpoints: 1, ..lost }),
            Self::NoWriterFence
            | Self::ConnectKeepsWriter
            | Self::ProbeWithoutConnect
            | Self::FenceOutsideLock
            | Self::NumbersFromSequence
            | Self::TailSkips => Scene::idle(lost),
            Self::ReleaseWithoutCompare => Scene::idle(Sizes { gives: 1, uses: 1, ..lost }),
            Self::NoIncarnationFence | Self::RestartKeepsIncarnation => {
                Scene::busy(SHARED, Sizes { tools: 1, ..crash })
            }
            Self::ClaimKeepsEpoch | Self::RecoveryAtStartOnly => Scene::busy(SHARED, crash),
            Self::NoEpochFence => Scene::busy(OWN, Sizes { ticks: 5, ..crash }),
            Self::ClaimWithoutCompare => Scene::busy(SHARED, Sizes { ticks: 6, starts: 0, ..crash }),
            Self::AdoptsOnce => Scene::busy(SHARED, Sizes { losses: 1, ..crash }),
            Self::RetryWithNewId => Scene::idle(Sizes { prompts: 2, ..crash }),
            Self::CustodyRunsTurns => Scene::idle(Sizes { prompts: 1, ..crash }),
            Self::DeclareWithoutCompare => Scene::idle(Sizes { links: 1, ticks: 6, ..none }),
            Self::DeadKeepsIncarnation => Scene::busy(SHARED, Sizes { links: 1, ticks: 5, tools: 1, ..none }),
            Self::ClockStopsInSuspend => Scene::busy(SHARED, Sizes { tools: 1, ..pause }),
            Self::LeaseFromAnswer => Scene::busy(SHARED, Sizes { tools: 1, links: 1, ..pause }),
            Self::WatchdogFromLastHeard => Scene::tool(Sizes { links: 1, ticks: 5, ..pause }),
            Self::LiveIdleOnGivingUp | Self::AdoptsInDoubt => Scene::busy(SHARED, pause),
            Self::ToolBeforeAdmission => Scene::busy(SHARED, Sizes { tools: 1, ..none }),
            Self::LiveAfterIdle => Scene::busy(SHARED, Sizes { frames: 1, ..none }),
            Self::FailoverKeepsFences | Self::NoGeneration => {
                Scene::idle(Sizes { failovers: 1, losses: 0, ..lost })
            }
        }
    }
}

/// Bounds of the search for a planted mistake. All are found far within.
const REACH: Reach = Reach { depth: 40, states: 20_000, rests: 4 };
/// Bounds of the same search without the mistake.
const CONTROL: Reach = Reach { depth: 40, states: 200, rests: 4 };

#[test]
fn every_planted_mistake_is_found() {
    for mistake in Mistake::ALL {
        let mut scene = mistake.scene();
        scene.model.mistake = Some(mistake);
        match explore(scene, REACH) {
            Err(rule) => println!("{mistake:?}: {rule}"),
            Ok((states, depth)) => panic!("{mistake:?} was not found in {states} states to depth {depth}"),
        }
    }
}

#[test]
fn the_scenes_of_the_mistakes_keep_the_rules_without_them() {
    for mistake in Mistake::ALL {
        explore(mistake.scene(), CONTROL).unwrap_or_else(|rule| panic!("{mistake:?}: {rule}"));
    }
}
