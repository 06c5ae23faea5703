//! Cases of the single parts: leases, the record, placement, positions, live events, the writer and the node.

use std::{collections::BTreeMap, time::Duration};

use super::process::TERMS;
use crate::fleet::{
    Effect, Fence, HoldingView, Identity, Input, Kind, Node, Record, Refusal, Ruling, Terms, Transaction,
    View, Writer,
    lease::{Lease, Seen, Watch},
    order::{Gate, Live, Position, Resume, Tail, Verdict},
    placement::{Candidate, rank},
    record::Ownership,
    writer::{Happened, Next, Outcome},
};

const SECOND: Duration = Duration::from_secs(1);
const VOLUME: &str = "volume";

fn record(kind: Kind<&'static str>) -> Record<&'static str, &'static str> {
    let row = Ownership { kind, owner: None, epoch: 0, custody: false };
    let mut record = Record::new(BTreeMap::from([(VOLUME, row)]));
    for node in ["a", "b"] {
        record.apply(&Transaction::Register { node });
    }
    record
}

fn by(node: &'static str) -> Identity<&'static str> {
    Identity { node, incarnation: 1 }
}

fn claim(node: &'static str, epoch: u64, custody: bool) -> Transaction<&'static str, &'static str> {
    Transaction::Claim { by: by(node), holding: VOLUME, epoch, custody }
}

fn declare(node: &'static str, beat: u64) -> Transaction<&'static str, &'static str> {
    let seen = Seen { incarnation: 1, beat };
    Transaction::Declare { by: by("b"), node, seen }
}

#[test]
fn a_lease_counts_from_the_sending_of_the_beat() {
    let mut lease = Lease::default();
    lease.sent();
    lease.pass(TERMS, 3 * SECOND);
    lease.renew();
    assert_eq!(lease.remaining(TERMS), SECOND);
    lease.pass(TERMS, SECOND);
    assert_eq!(lease.remaining(TERMS), Duration::ZERO);
}

#[test]
fn a_beat_that_was_given_up_renews_nothing() {
    let mut lease = Lease::default();
    lease.sent();
    lease.pass(TERMS, 2 * SECOND);
    lease.lost();
    lease.renew();
    assert_eq!(lease.remaining(TERMS), 2 * SECOND);
}

#[test]
fn clocks_may_differ_in_rate_by_half() {
    let terms = Terms { length: 6 * SECOND };
    assert_eq!(terms.step_back() * 3 / 2, terms.length);
}

#[test]
fn silence_needs_four_looks_and_counts_only_while_the_observer_can_look() {
    let seen = Seen { incarnation: 1, beat: 7 };
    let mut watch = Watch::new(seen);
    for _ in 0..3 {
        watch.look(TERMS, seen, Some(60 * SECOND));
        assert!(!watch.is_over(TERMS));
    }
    for _ in 0..60 {
        watch.look(TERMS, seen, None);
        assert!(!watch.is_over(TERMS), "the observer was blind");
    }
    watch.look(TERMS, seen, Some(60 * SECOND));
    assert!(watch.is_over(TERMS));
    watch.look(TERMS, Seen { beat: 8, ..seen }, Some(SECOND));
    assert!(!watch.is_over(TERMS));
}

#[test]
fn a_claim_needs_the_epoch_that_was_read_and_an_owner_that_is_gone() {
    let mut record = record(Kind::Shared);
    assert_eq!(record.apply(&claim("a", 1, false)), Ruling::Refused(Refusal::Changed));
    assert_eq!(record.apply(&claim("a", 0, false)), Ruling::Claimed { epoch: 1 });
    assert_eq!(record.apply(&claim("b", 1, false)), Ruling::Refused(Refusal::Changed), "its owner lives");
    assert_eq!(record.apply(&declare("a", 1)), Ruling::Refused(Refusal::Changed), "it has beaten since");
    assert_eq!(record.apply(&declare("a", 0)), Ruling::Done);
    assert_eq!(record.apply(&claim("a", 1, false)), Ruling::Refused(Refusal::Dead));
    assert_eq!(record.apply(&Transaction::Beat { by: by("a") }), Ruling::Refused(Refusal::Dead));
    assert_eq!(record.apply(&claim("b", 1, false)), Ruling::Claimed { epoch: 2 });
}

#[test]
fn custody_needs_a_dead_node_and_ends_when_the_node_is_back() {
    let mut record = record(Kind::Own("a"));
    assert_eq!(record.apply(&claim("b", 0, true)), Ruling::Refused(Refusal::Changed));
    assert_eq!(record.apply(&declare("a", 0)), Ruling::Done);
    assert_eq!(
        record.apply(&claim("b", 0, false)),
        Ruling::Refused(Refusal::Changed),
        "the files are elsewhere"
    );
    assert_eq!(record.apply(&claim("b", 0, true)), Ruling::Claimed { epoch: 1 });
    assert_eq!(record.apply(&Transaction::Register { node: "a" }), Ruling::Registered { incarnation: 3 });
    let back = Identity { node: "a", incarnation: 3 };
    let claim = Transaction::Claim { by: back, holding: VOLUME, epoch: 1, custody: false };
    assert_eq!(record.apply(&claim), Ruling::Claimed { epoch: 2 });
}

#[test]
fn each_number_of_a_fence_shuts_out_its_predecessors() {
    let mut record = record(Kind::Shared);
    record.apply(&claim("a", 0, false));
    record.apply(&Transaction::Connect { by: by("a") });
    let fence = Fence { by: by("a"), writer: 1, holding: VOLUME, epoch: 1 };
    assert_eq!(record.check(&fence), Ok(()));
    assert_eq!(record.check(&Fence { epoch: 2, ..fence }), Err(Refusal::Changed));
    record.apply(&Transaction::Connect { by: by("a") });
    assert_eq!(record.check(&fence), Err(Refusal::Writer));
    record.apply(&Transaction::Register { node: "a" });
    assert_eq!(record.check(&Fence { writer: 2, ..fence }), Err(Refusal::Dead));
}

#[test]
fn a_release_ends_the_right_to_commit() {
    let mut record = record(Kind::Shared);
    record.apply(&claim("a", 0, false));
    record.apply(&Transaction::Connect { by: by("a") });
    let release = |epoch| Transaction::Release { by: by("a"), holding: VOLUME, epoch };
    assert_eq!(record.apply(&release(0)), Ruling::Refused(Refusal::Changed));
    assert_eq!(record.apply(&release(1)), Ruling::Done);
    let fence = Fence { by: by("a"), writer: 1, holding: VOLUME, epoch: 1 };
    assert_eq!(record.check(&fence), Err(Refusal::Changed));
}

#[test]
fn a_new_generation_raises_every_fence() {
    let mut record = record(Kind::Shared);
    record.apply(&claim("a", 0, false));
    record.greet(0);
    assert_eq!(record.generation, 0, "the same server");
    record.greet(1);
    assert_eq!(record.generation, 1);
    let again = Identity { node: "b", incarnation: 2 };
    assert_eq!(record.apply(&Transaction::Beat { by: again }), Ruling::Refused(Refusal::Dead));
    let Ruling::Registered { incarnation } = record.apply(&Transaction::Register { node: "b" }) else {
        panic!("registering is always possible")
    };
    assert!(incarnation > 1 << 32);
    assert!(record.holdings[VOLUME].epoch >= 1 << 32);
}

#[test]
fn every_node_computes_the_same_order() {
    let candidates = ["a", "b", "c"].map(|node| Candidate { node, capacity: 4 });
    for workspace in ["wrk_1", "wrk_2", "wrk_3"] {
        let mut ranks = candidates.map(|candidate| rank(&candidates, candidate.node, workspace));
        ranks.sort_unstable();
        assert_eq!(ranks, [Some(0), Some(1), Some(2)]);
    }
    assert_eq!(rank(&candidates, "d", "wrk_1"), None);
}

#[test]
fn a_node_that_leaves_moves_only_its_own_workspaces() {
    let all = ["a", "b", "c"].map(|node| Candidate { node, capacity: 1 });
    let first = |candidates: &[Candidate<'static>], workspace: &str| {
        candidates
            .iter()
            .map(|candidate| candidate.node)
            .find(|node| rank(candidates, node, workspace) == Some(0))
    };
    for number in 0..100 {
        let workspace = format!("wrk_{number}");
        let before = first(&all, &workspace);
        if before != Some("c") {
            assert_eq!(first(&all[..2], &workspace), before);
        }
    }
}

#[test]
fn capacity_attracts_work_and_zero_takes_none() {
    let candidates = [("a", 9), ("b", 1), ("c", 0)].map(|(node, capacity)| Candidate { node, capacity });
    let wins = |node| (0..400).filter(|n| rank(&candidates, node, &format!("wrk_{n}")) == Some(0)).count();
    assert!(wins("a") > 300 && wins("b") > 10, "{} and {}", wins("a"), wins("b"));
    assert_eq!(rank(&candidates, "c", "wrk_1"), None);
}

#[test]
fn a_tail_publishes_without_a_gap() {
    let mut tail = Tail::default();
    assert!(!tail.publish(Position::new(0, 2)), "1 lies between");
    assert!(tail.publish(Position::new(0, 1)));
    assert!(!tail.publish(Position::new(0, 1)), "it was published");
    assert!(tail.publish(Position::new(0, 2)));
}

#[test]
fn a_cursor_beyond_the_end_of_its_generation_needs_a_resync() {
    let mut tail = Tail::default();
    for number in 1..=7 {
        tail.publish(Position::new(0, number));
    }
    assert!(tail.enter(1, Position::new(0, 5)), "6 and 7 are lost");
    assert!(tail.publish(Position::new(1, 1)));
    assert_eq!(tail.judge(Position::new(0, 5)), Resume::Replay);
    assert_eq!(tail.judge(Position::new(0, 6)), Resume::Resync);
    assert_eq!(tail.judge(Position::new(1, 1)), Resume::Replay);
    assert_eq!(tail.judge(Position::new(1, 2)), Resume::Wait);
}

#[test]
fn generation_0_has_the_numbers_of_a_single_server_and_javascript_holds_8191() {
    assert_eq!(Position::new(0, 7).number(), 7);
    let last = Position::new(8_191, 3);
    assert_eq!((last.generation(), last.number()), (8_191, 3));
    assert!(last < Position::new(8_192, 0));
}

#[test]
fn a_live_event_waits_for_its_turn_and_never_follows_the_idle() {
    let mut gate = Gate::default();
    gate.pass(4, 1, false);
    assert_eq!(gate.judge(Live { epoch: 1, after: 4 }), Verdict::Publish);
    assert_eq!(gate.judge(Live { epoch: 1, after: 5 }), Verdict::Hold);
    assert_eq!(
        gate.judge(Live { epoch: 2, after: 3 }),
        Verdict::Hold,
        "no event of this epoch was published"
    );
    gate.pass(5, 1, true);
    assert_eq!(gate.judge(Live { epoch: 1, after: 4 }), Verdict::Drop);
    gate.pass(6, 2, false);
    assert_eq!(gate.judge(Live { epoch: 1, after: 6 }), Verdict::Drop);
}

#[test]
fn a_commit_in_doubt_is_looked_up_after_the_new_connection() {
    let mut writer = Writer::default();
    assert_eq!(writer.step(Happened::Submitted("x")), None, "there is no connection yet");
    assert_eq!(writer.step(Happened::Connected(1)), None);
    assert_eq!(writer.step(Happened::Submitted("x")), Some(Next::Send { number: 1, commit: "x" }));
    assert_eq!(writer.step(Happened::Submitted("y")), None, "one at a time");
    assert_eq!(writer.step(Happened::Lost), Some(Next::Connect));
    assert_eq!(writer.step(Happened::Found(true)), None, "a look before the connection proves nothing");
    assert_eq!(writer.step(Happened::Connected(2)), Some(Next::Probe("x")));
    assert_eq!(writer.step(Happened::Found(false)), Some(Next::Settled("x", Outcome::Never)));
    assert!(writer.is_free());
}

type TestNode = Node<&'static str, &'static str>;

/// A registered node that holds the volume.
fn owner(record: &mut Record<&'static str, &'static str>) -> TestNode {
    let mut node = Node::new("a", TERMS);
    let registers = Transaction::Register { node: "a" };
    assert_eq!(node.step(Duration::ZERO, Input::Tick), [Effect::Send(registers)]);
    node.step(Duration::ZERO, Input::Answered(registers, Ruling::Registered { incarnation: 1 }));
    let holding_view = HoldingView { row: record.holdings[VOLUME], is_unfinished: false, rank: Some(0) };
    let claims = claim("a", 0, false);
    assert_eq!(node.step(Duration::ZERO, Input::Use(VOLUME, holding_view)), [Effect::Send(claims)]);
    let answer = record.apply(&claims);
    let adopts = Effect::Adopt { holding: VOLUME, epoch: 1, custody: false };
    assert_eq!(node.step(Duration::ZERO, Input::Answered(claims, answer)), [adopts]);
    node.step(Duration::ZERO, Input::Adopted { holding: VOLUME, epoch: 1 });
    assert!(node.may_act(&VOLUME));
    node
}

#[test]
fn a_paused_node_finds_out_before_it_begins_a_tool() {
    let mut node = owner(&mut record(Kind::Shared));
    let begin = Input::Begin { holding: VOLUME, epoch: 1 };
    assert_eq!(node.step(SECOND, begin.clone()), [Effect::Begin(VOLUME)]);
    assert_eq!(node.step(10 * SECOND, begin), [Effect::StepBack, Effect::Refuse(VOLUME)]);
    assert!(!node.may_act(&VOLUME));
}

#[test]
fn a_node_that_stepped_back_repairs_its_volumes_when_its_lease_holds_again() {
    let mut node = owner(&mut record(Kind::Shared));
    let beat = Transaction::Beat { by: by("a") };
    let effects = node.step(5 * SECOND, Input::Tick);
    assert_eq!(effects, [Effect::StepBack, Effect::Send(beat), Effect::Look]);
    let adopts = Effect::Adopt { holding: VOLUME, epoch: 1, custody: false };
    let effects = node.step(SECOND, Input::Answered(beat, Ruling::Done));
    assert_eq!(effects, [Effect::Guard(3 * SECOND), Effect::GoOn, adopts]);
}

#[test]
fn a_claim_that_is_answered_after_stepping_back_is_repaired_later() {
    let mut record = record(Kind::Shared);
    let mut node = owner(&mut record);
    node.step(Duration::ZERO, Input::GiveBack(VOLUME));
    let releases = Transaction::Release { by: by("a"), holding: VOLUME, epoch: 1 };
    node.step(Duration::ZERO, Input::Answered(releases, record.apply(&releases)));
    let claims = claim("a", 1, false);
    let holding_view = HoldingView { row: record.holdings[VOLUME], is_unfinished: false, rank: Some(0) };
    assert_eq!(node.step(Duration::ZERO, Input::Use(VOLUME, holding_view)), [Effect::Send(claims)]);
    let answered = Input::Answered(claims, record.apply(&claims));
    assert_eq!(node.step(5 * SECOND, answered), [Effect::StepBack], "it adopts nothing now");
}

#[test]
fn a_node_that_was_declared_dead_starts_over_and_publishes_nothing() {
    let mut node = owner(&mut record(Kind::Shared));
    let beat = Transaction::Beat { by: by("a") };
    let effects = node.step(SECOND, Input::Answered(beat, Ruling::Refused(Refusal::Dead)));
    assert_eq!(effects, [Effect::StartOver, Effect::Send(Transaction::Register { node: "a" })]);
    assert_eq!(node.epoch(&VOLUME), None);
    assert_eq!(node.identity(), None);
}

#[test]
fn an_older_snapshot_takes_nothing_away() {
    let mut record = record(Kind::Shared);
    let holding_view = |record: &Record<_, _>| HoldingView {
        row: record.holdings[VOLUME],
        is_unfinished: true,
        rank: Some(0),
    };
    let before = View { members: record.members.clone(), holdings: [(VOLUME, holding_view(&record))].into() };
    let mut node = owner(&mut record);
    assert_eq!(node.step(Duration::ZERO, Input::Looked(before)), []);
    assert_eq!(node.epoch(&VOLUME), Some(1));
    record.holdings.entry(VOLUME).and_modify(|row| (row.owner, row.epoch) = (Some("b"), 2));
    let after = View { members: record.members.clone(), holdings: [(VOLUME, holding_view(&record))].into() };
    assert_eq!(node.step(Duration::ZERO, Input::Looked(after)), [Effect::Quit(VOLUME)]);
}

#[test]
fn a_draining_node_gives_back_and_claims_nothing() {
    let mut record = record(Kind::Shared);
    let mut node = owner(&mut record);
    let drains = Transaction::Drain { by: by("a") };
    assert_eq!(node.step(Duration::ZERO, Input::Drain), [Effect::Send(drains)]);
    record.apply(&drains);
    let releases = Transaction::Release { by: by("a"), holding: VOLUME, epoch: 1 };
    assert_eq!(node.step(Duration::ZERO, Input::GiveBack(VOLUME)), [Effect::Send(releases)]);
    node.step(Duration::ZERO, Input::Answered(releases, record.apply(&releases)));
    let holding_view = HoldingView { row: record.holdings[VOLUME], is_unfinished: true, rank: None };
    let view = View { members: record.members.clone(), holdings: [(VOLUME, holding_view)].into() };
    assert_eq!(node.step(Duration::ZERO, Input::Looked(view)), []);
}

#[test]
fn a_lost_drain_is_repeated_and_the_work_of_an_earlier_process_is_given_back() {
    let mut record = record(Kind::Shared);
    record.apply(&claim("a", 0, false));
    let mut node = TestNode::new("a", TERMS);
    node.step(Duration::ZERO, Input::Drain);
    node.step(Duration::ZERO, Input::Tick);
    let registers = Transaction::Register { node: "a" };
    node.step(Duration::ZERO, Input::Answered(registers, record.apply(&registers)));
    let by = Identity { node: "a", incarnation: 2 };
    assert_eq!(node.step(Duration::ZERO, Input::Lost(Transaction::Drain { by })), []);
    let holding_view = HoldingView { row: record.holdings[VOLUME], is_unfinished: true, rank: Some(0) };
    let view = View { members: record.members.clone(), holdings: [(VOLUME, holding_view)].into() };
    let releases = Transaction::Release { by, holding: VOLUME, epoch: 1 };
    let expected = [Transaction::Drain { by }, releases].map(Effect::Send);
    assert_eq!(node.step(Duration::ZERO, Input::Looked(view)), expected);
}
