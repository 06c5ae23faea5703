//! Bugs known from other servers, planted on purpose: the checks must catch each one.

use protocol::EndReason;

use super::{
    explore::{CHANGES, USUAL, explore},
    monitor::{TestEffect, TestInput},
};
use crate::lifecycle::{Effect, Input, Stop};

#[derive(Debug, Clone, Copy)]
pub(super) enum Bug {
    /// Idle whenever a message is completed.
    IdlePerMessage,
    /// Idle before cleaning up.
    IdleBeforeCleanup,
    /// Idle when the turn ends, and again when the process exits.
    IdleOnExitToo,
    /// Idle from the error handler, and again from the loop.
    IdleOnErrorToo,
    /// An abort of an idle session publishes idle.
    IdleOnIdleAbort,
    /// A child's idle is published as the parent's.
    ChildIdle,
    /// Busy is published with every report.
    BusyPerStep,
    /// An abort drops waiting prompts without ending them.
    ForgetWaiting,
    /// A report of a finished run is recorded.
    LateReport,
    /// Idle before a continuation.
    IdleBeforeGoingOn,
    /// A continuation after an abort.
    GoesOnAfterAbort,
    /// A prompt that a turn has taken up is withdrawn.
    WithdrawStarted,
}

impl Bug {
    const ALL: [Self; 12] = [
        Self::IdlePerMessage,
        Self::IdleBeforeCleanup,
        Self::IdleOnExitToo,
        Self::IdleOnErrorToo,
        Self::IdleOnIdleAbort,
        Self::ChildIdle,
        Self::BusyPerStep,
        Self::ForgetWaiting,
        Self::LateReport,
        Self::IdleBeforeGoingOn,
        Self::GoesOnAfterAbort,
        Self::WithdrawStarted,
    ];

    pub(super) fn spoil_report(self, is_recorded: &mut bool, effects: &mut Vec<TestEffect>) {
        match self {
            Self::IdlePerMessage if *is_recorded => effects.push(Effect::Idle(EndReason::Completed)),
            Self::BusyPerStep if *is_recorded => effects.push(Effect::Busy),
            Self::LateReport => *is_recorded = true,
            _ => {}
        }
    }

    pub(super) fn spoil_withdrawal(self, is_accepted: &mut bool) {
        *is_accepted |= matches!(self, Self::WithdrawStarted);
    }

    pub(super) fn spoil(self, input: &TestInput, effects: &mut Vec<TestEffect>) {
        let idle = Effect::Idle(EndReason::Completed);
        match self {
            Self::IdleBeforeCleanup => {
                effects.sort_by_key(|effect| !matches!(effect, Effect::Idle(_)));
            }
            Self::IdleOnExitToo if matches!(input, Input::Ended { .. }) => effects.push(idle),
            Self::IdleOnErrorToo
                if effects.iter().any(|effect| matches!(effect, Effect::Idle(EndReason::Error))) =>
            {
                effects.insert(0, Effect::Idle(EndReason::Error));
            }
            Self::IdleOnIdleAbort if matches!(input, Input::Stop(Stop::Abort)) && effects.is_empty() => {
                effects.push(Effect::Idle(EndReason::Aborted));
            }
            Self::ChildIdle if matches!(input, Input::ChildEnded { .. }) => effects.push(idle),
            Self::ForgetWaiting if matches!(input, Input::Stop(_)) => {
                effects.retain(|effect| !matches!(effect, Effect::EndPrompt { .. }));
            }
            Self::IdleBeforeGoingOn
                if effects.iter().any(|effect| matches!(effect, Effect::Consult { .. })) =>
            {
                effects.push(idle);
            }
            Self::GoesOnAfterAbort if effects.contains(&Effect::Idle(EndReason::Aborted)) => {
                effects.push(Effect::Continue { run: 99 });
            }
            _ => {}
        }
    }
}

#[test]
fn each_known_bug_is_caught() {
    for bug in Bug::ALL {
        let is_caught = explore(USUAL, Some(bug)).is_err() || explore(CHANGES, Some(bug)).is_err();
        assert!(is_caught, "{bug:?} was not caught");
    }
}
