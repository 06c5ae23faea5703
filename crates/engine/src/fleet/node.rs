//! The protocol of one node: it joins the fleet, keeps its lease, watches the others, and claims and gives back
//! workspaces and duties.
//!
//! The database decides, and this machine only asks: each of its transactions compares what the node has read, so a
//! wrong guess is refused. Whatever an answer leaves open, the next look settles.

use std::{collections::BTreeMap, time::Duration};

use super::{
    input::{Effect, HoldingView, Input, View},
    lease::{Lease, Seen, Terms, Watch},
    placement::DELAY,
    record::{Identity, Kind, Member, Refusal, Ruling, State, Transaction},
};

/// Longest time that a candidate counts before it claims; more nodes than this many seconds are no fleet.
const MAX_WAIT: Duration = Duration::from_secs(32);

/// The node's relation to a workspace or a duty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Tenure {
    /// Waits for its turn in the order of placement.
    Waiting(Duration),
    Claiming {
        is_own: bool,
    },
    Held {
        epoch: u64,
        custody: bool,
        is_own: bool,
        is_adopted: bool,
    },
    Releasing,
}

/// One process of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node<N: Ord, H: Ord> {
    id: N,
    terms: Terms,
    /// None until the process is registered.
    incarnation: Option<u64>,
    is_registering: bool,
    lease: Lease,
    has_stepped_back: bool,
    is_draining: bool,
    peers: BTreeMap<N, Watch>,
    /// Time since the last successful look; none if a look has failed since.
    since_look: Option<Duration>,
    tenures: BTreeMap<H, Tenure>,
}

type Effects<N, H> = Vec<Effect<N, H>>;

impl<N: Clone + Ord, H: Clone + Ord> Node<N, H> {
    /// A process that has just started and holds the lock file of its data directory.
    pub fn new(id: N, terms: Terms) -> Self {
        Self {
            id,
            terms,
            incarnation: None,
            is_registering: false,
            lease: Lease::default(),
            has_stepped_back: false,
            is_draining: false,
            peers: BTreeMap::new(),
            since_look: None,
            tenures: BTreeMap::new(),
        }
    }

    /// The process as the database knows it; none while it is not registered.
    pub fn identity(&self) -> Option<Identity<N>> {
        self.incarnation.map(|incarnation| Identity { node: self.id.clone(), incarnation })
    }

    /// The epoch under which this node may commit for a holding.
    pub fn epoch(&self, holding: &H) -> Option<u64> {
        match self.tenures.get(holding) {
            Some(Tenure::Held { epoch, .. }) => Some(*epoch),
            _ => None,
        }
    }

    /// Tells if the node holds a directory of another node's disk, whose turns it may end and not run.
    pub fn is_in_custody(&self, holding: &H) -> bool {
        matches!(self.tenures.get(holding), Some(Tenure::Held { custody: true, .. }))
    }

    /// The directories of other nodes' disks that the node holds.
    pub fn custodies(&self) -> impl Iterator<Item = &H> {
        let custody = |tenure: &Tenure| matches!(tenure, Tenure::Held { custody: true, .. });
        self.tenures.iter().filter(move |(_, tenure)| custody(tenure)).map(|(holding, _)| holding)
    }

    /// The holdings that the node owns.
    pub fn held(&self) -> impl Iterator<Item = &H> {
        let held = |tenure: &Tenure| matches!(tenure, Tenure::Held { .. });
        self.tenures.iter().filter(move |(_, tenure)| held(tenure)).map(|(holding, _)| holding)
    }

    /// Tells if the node may publish live events and accept commands for a holding.
    pub fn may_act(&self, holding: &H) -> bool {
        let is_ready = matches!(self.tenures.get(holding), Some(Tenure::Held { is_adopted: true, .. }));
        is_ready && !self.has_stepped_back
    }

    /// Advances by one input, `elapsed` after the one before. The caller measures with a clock that runs on while the
    /// machine is suspended, and measures before each decision: time first, so that a process that was paused finds
    /// out before it acts.
    pub fn step(&mut self, elapsed: Duration, input: Input<N, H>) -> Effects<N, H> {
        let mut effects = self.pass(elapsed);
        effects.extend(match input {
            Input::Tick => self.tick(),
            Input::Answered(transaction, answer) => self.answered(transaction, answer),
            Input::Lost(transaction) => self.lost(&transaction),
            Input::Looked(view) => self.looked(view),
            Input::LookFailed => {
                self.since_look = None;
                Vec::new()
            }
            Input::Use(holding, holding_view) => self.first_use(holding, &holding_view),
            Input::Adopted { holding, epoch } => self.adopted(&holding, epoch),
            Input::GiveBack(holding) => self.give_back(holding),
            Input::Begin { holding, epoch } => self.begin(holding, epoch),
            Input::Fenced { by, holding, epoch, why } => self.fenced(&by, holding, epoch, why),
            Input::Drain => self.drain(),
        });
        effects
    }

    fn pass(&mut self, elapsed: Duration) -> Effects<N, H> {
        self.lease.pass(self.terms, elapsed);
        self.since_look = self.since_look.map(|since| since.saturating_add(elapsed).min(self.terms.length));
        for tenure in self.tenures.values_mut() {
            if let Tenure::Waiting(waited) = tenure {
                *waited = waited.saturating_add(elapsed).min(MAX_WAIT);
            }
        }
        let is_over = self.lease.remaining(self.terms).is_zero();
        if self.incarnation.is_none() || self.has_stepped_back || !is_over {
            return Vec::new();
        }
        self.has_stepped_back = true;
        self.interrupt_shared();
        vec![Effect::StepBack]
    }

    /// Marks the shared holdings for another repair: their runners are about to be cancelled.
    fn interrupt_shared(&mut self) {
        for tenure in self.tenures.values_mut() {
            if let Tenure::Held { is_own: false, is_adopted, .. } = tenure {
                *is_adopted = false;
            }
        }
    }

    fn tick(&mut self) -> Effects<N, H> {
        let Some(by) = self.identity() else { return self.register() };
        let mut effects = vec![Effect::Look];
        if self.lease.is_due(self.terms) {
            self.lease.sent();
            effects.insert(0, Effect::Send(Transaction::Beat { by }));
        }
        effects
    }

    fn register(&mut self) -> Effects<N, H> {
        if std::mem::replace(&mut self.is_registering, true) {
            return Vec::new();
        }
        // Registering proves life as a beat does, so the lease counts from here.
        self.lease = Lease::default();
        self.lease.sent();
        vec![Effect::Send(Transaction::Register { node: self.id.clone() })]
    }

    /// Forgets everything and registers again. Nothing is published: the record already belongs to another process.
    fn start_over(&mut self) -> Effects<N, H> {
        let is_draining = self.is_draining;
        *self = Self { is_draining, ..Self::new(self.id.clone(), self.terms) };
        let mut effects = vec![Effect::StartOver];
        effects.extend(self.register());
        effects
    }

    fn answered(&mut self, transaction: Transaction<N, H>, answer: Ruling) -> Effects<N, H> {
        if let Transaction::Register { .. } = transaction {
            return self.registered(answer);
        }
        if self.is_stale(&transaction) {
            return Vec::new();
        }
        match (transaction, answer) {
            (_, Ruling::Refused(Refusal::Dead)) => self.start_over(),
            (Transaction::Beat { .. }, _) => self.renewed(),
            (Transaction::Claim { holding, custody, .. }, Ruling::Claimed { epoch }) => {
                self.claimed(holding, epoch, custody)
            }
            (Transaction::Claim { holding, .. } | Transaction::Release { holding, .. }, _) => {
                self.tenures.remove(&holding);
                Vec::new()
            }
            // What the dead node held can be claimed now; the next look would come later than necessary.
            (Transaction::Declare { .. }, Ruling::Done) => vec![Effect::Look],
            _ => Vec::new(),
        }
    }

    fn lost(&mut self, transaction: &Transaction<N, H>) -> Effects<N, H> {
        if let Transaction::Register { .. } = transaction {
            self.is_registering = false;
        } else if !self.is_stale(transaction) {
            match transaction {
                Transaction::Beat { .. } => self.lease.lost(),
                // It is open who owns the holding. The node does not act for it; the next look tells.
                Transaction::Claim { holding, .. } | Transaction::Release { holding, .. } => {
                    self.tenures.remove(holding);
                }
                _ => {}
            }
        }
        Vec::new()
    }

    /// Tells if a transaction was sent by an earlier incarnation.
    fn is_stale(&self, transaction: &Transaction<N, H>) -> bool {
        match transaction {
            Transaction::Register { .. } => false,
            Transaction::Beat { by }
            | Transaction::Drain { by }
            | Transaction::Declare { by, .. }
            | Transaction::Claim { by, .. }
            | Transaction::Release { by, .. }
            | Transaction::Connect { by } => Some(by.incarnation) != self.incarnation,
        }
    }

    fn registered(&mut self, answer: Ruling) -> Effects<N, H> {
        if let (Ruling::Registered { incarnation }, true) = (answer, self.is_registering) {
            (self.incarnation, self.is_registering) = (Some(incarnation), false);
            let mut effects = self.renewed();
            effects.extend(if self.is_draining { self.drain() } else { Vec::new() });
            effects.push(Effect::Look);
            return effects;
        }
        Vec::new()
    }

    fn renewed(&mut self) -> Effects<N, H> {
        self.lease.renew();
        let remaining = self.lease.remaining(self.terms);
        let mut effects = vec![Effect::Guard(remaining)];
        if self.has_stepped_back && !remaining.is_zero() {
            self.has_stepped_back = false;
            effects.push(Effect::GoOn);
            effects.extend(self.tenures.iter().filter_map(|(holding, tenure)| tenure.repair(holding)));
        }
        effects
    }

    fn claimed(&mut self, holding: H, epoch: u64, custody: bool) -> Effects<N, H> {
        let Some(Tenure::Claiming { is_own }) = self.tenures.get(&holding) else { return Vec::new() };
        let tenure = Tenure::Held { epoch, custody, is_own: *is_own, is_adopted: false };
        // A node that has stepped back repairs what it holds when its lease holds again.
        let repair = tenure.repair(&holding).filter(|_| !self.has_stepped_back);
        self.tenures.insert(holding, tenure);
        repair.into_iter().collect()
    }

    fn adopted(&mut self, holding: &H, repaired: u64) -> Effects<N, H> {
        // A repair that ends after the node has stepped back counts only for its own directories.
        let has_stepped_back = self.has_stepped_back;
        if let Some(Tenure::Held { epoch, is_adopted, is_own, .. }) = self.tenures.get_mut(holding) {
            *is_adopted |= *epoch == repaired && (*is_own || !has_stepped_back);
        }
        Vec::new()
    }

    fn give_back(&mut self, holding: H) -> Effects<N, H> {
        self.epoch(&holding).map_or_else(Vec::new, |epoch| self.send_release(holding, epoch))
    }

    fn begin(&mut self, holding: H, asked: u64) -> Effects<N, H> {
        let has_right = match self.tenures.get(&holding) {
            Some(Tenure::Held { epoch, custody: false, is_adopted: true, .. }) => *epoch == asked,
            _ => false,
        };
        vec![if has_right && !self.has_stepped_back {
            Effect::Begin(holding)
        } else {
            Effect::Refuse(holding)
        }]
    }

    fn fenced(&mut self, by: &Identity<N>, holding: H, fenced: u64, why: Refusal) -> Effects<N, H> {
        if self.incarnation != Some(by.incarnation) {
            return Vec::new();
        }
        match why {
            Refusal::Dead => self.start_over(),
            Refusal::Changed if self.epoch(&holding) == Some(fenced) => self.quit(holding),
            Refusal::Changed | Refusal::Writer => Vec::new(),
        }
    }

    fn quit(&mut self, holding: H) -> Effects<N, H> {
        self.tenures.remove(&holding);
        vec![Effect::Quit(holding)]
    }

    fn drain(&mut self) -> Effects<N, H> {
        self.is_draining = true;
        self.identity().map(|by| Effect::Send(Transaction::Drain { by })).into_iter().collect()
    }

    fn looked(&mut self, view: View<N, H>) -> Effects<N, H> {
        let Some(by) = self.identity() else { return Vec::new() };
        // A snapshot from before the registration shows a smaller number; only a greater one is news.
        let own = view.members.get(&self.id);
        if own.is_some_and(|member| member.incarnation > by.incarnation) {
            return self.start_over();
        }
        // The answer to the drain may have been lost, and the drain with it.
        let must_drain = self.is_draining && own.is_some_and(|member| member.state == State::Up);
        let gap = self.since_look.replace(Duration::ZERO);
        let mut effects = if must_drain { self.drain() } else { Vec::new() };
        effects.extend(self.watch(&by, &view.members, gap));
        for (holding, holding_view) in view.holdings {
            effects.extend(self.consider(holding, &holding_view, &view.members));
        }
        effects
    }

    /// Counts the silence of the others and declares dead those whose lease is over.
    fn watch(
        &mut self,
        by: &Identity<N>,
        members: &BTreeMap<N, Member>,
        gap: Option<Duration>,
    ) -> Effects<N, H> {
        self.peers.retain(|node, _| members.contains_key(node));
        let mut effects = Vec::new();
        for (node, member) in members.iter().filter(|(node, _)| **node != self.id) {
            let seen = Seen { incarnation: member.incarnation, beat: member.beat };
            let watch = self.peers.entry(node.clone()).or_insert(Watch::new(seen));
            watch.look(self.terms, seen, gap);
            if member.state != State::Dead && watch.is_over(self.terms) {
                let (by, node) = (by.clone(), node.clone());
                effects.push(Effect::Send(Transaction::Declare { by, node, seen }));
            }
        }
        effects
    }

    /// Compares one holding with the record: finds out that it was lost, repairs it, or claims it.
    fn consider(
        &mut self,
        holding: H,
        holding_view: &HoldingView<N>,
        members: &BTreeMap<N, Member>,
    ) -> Effects<N, H> {
        let waited = match self.tenures.get(&holding) {
            // An older snapshot may arrive after the answer to the claim, so only a higher epoch is news.
            Some(Tenure::Held { epoch, .. }) if holding_view.row.epoch > *epoch => return self.quit(holding),
            Some(tenure @ Tenure::Held { .. }) if !self.has_stepped_back => {
                return tenure.repair(&holding).into_iter().collect();
            }
            Some(Tenure::Waiting(waited)) => Some(*waited),
            Some(_) => return Vec::new(),
            None => None,
        };
        match self.decide(holding_view, members) {
            ClaimDecision::Nothing => {
                self.tenures.remove(&holding);
                Vec::new()
            }
            ClaimDecision::Release => self.send_release(holding, holding_view.row.epoch),
            ClaimDecision::Claim { custody, after } if waited.unwrap_or_default() >= after => {
                self.send_claim(holding, holding_view, custody)
            }
            ClaimDecision::Claim { .. } => {
                self.tenures.entry(holding).or_insert(Tenure::Waiting(Duration::ZERO));
                Vec::new()
            }
        }
    }

    /// Decides what to do about a holding that this process does not hold.
    fn decide(&self, holding_view: &HoldingView<N>, members: &BTreeMap<N, Member>) -> ClaimDecision {
        let row = &holding_view.row;
        let is_dead = |node: &N| members.get(node).is_none_or(|member| member.state == State::Dead);
        let is_mine = row.owner.as_ref() == Some(&self.id);
        let is_left =
            row.owner.as_ref().is_none_or(|owner| is_mine || is_dead(owner)) && holding_view.is_unfinished;
        let may_take = holding_view.rank.is_some() && !self.is_draining;
        let after = DELAY * holding_view.rank.unwrap_or_default();
        match &row.kind {
            _ if self.has_stepped_back => ClaimDecision::Nothing,
            Kind::Own(home) if *home == self.id => {
                let is_in_custody = row.custody && !is_mine;
                claim_if(is_left || is_in_custody, false, Duration::ZERO)
            }
            // An earlier process of this node owns it, and this one must not work on it: others may.
            _ if is_mine && !may_take => ClaimDecision::Release,
            _ if !may_take => ClaimDecision::Nothing,
            Kind::Own(home) => claim_if(is_left && is_dead(home), true, after),
            Kind::Shared => claim_if(is_left, false, after),
        }
    }

    /// Claims a holding at once: a client waits for it. If its owner lives after all, the record refuses.
    fn first_use(&mut self, holding: H, holding_view: &HoldingView<N>) -> Effects<N, H> {
        let is_open =
            !self.tenures.contains_key(&holding) && !self.has_stepped_back && holding_view.rank.is_some();
        let is_elsewhere = matches!(&holding_view.row.kind, Kind::Own(home) if *home != self.id);
        if is_open && !is_elsewhere { self.send_claim(holding, holding_view, false) } else { Vec::new() }
    }

    fn send_claim(&mut self, holding: H, holding_view: &HoldingView<N>, custody: bool) -> Effects<N, H> {
        let Some(by) = self.identity() else { return Vec::new() };
        let is_own = matches!(holding_view.row.kind, Kind::Own(_));
        self.tenures.insert(holding.clone(), Tenure::Claiming { is_own });
        vec![Effect::Send(Transaction::Claim { by, holding, epoch: holding_view.row.epoch, custody })]
    }

    fn send_release(&mut self, holding: H, epoch: u64) -> Effects<N, H> {
        let Some(by) = self.identity() else { return Vec::new() };
        self.tenures.insert(holding.clone(), Tenure::Releasing);
        vec![Effect::Send(Transaction::Release { by, holding, epoch })]
    }

    /// The lease of each peer, for tests that renumber beats.
    #[cfg(test)]
    pub(super) fn peers_mut(&mut self) -> impl Iterator<Item = (&N, &mut Watch)> {
        self.peers.iter_mut()
    }
}

/// A decision about a holding that this process does not hold.
enum ClaimDecision {
    Nothing,
    Claim { custody: bool, after: Duration },
    Release,
}

fn claim_if(condition: bool, custody: bool, after: Duration) -> ClaimDecision {
    if condition { ClaimDecision::Claim { custody, after } } else { ClaimDecision::Nothing }
}

impl Tenure {
    /// The repair that a holding still needs.
    fn repair<N, H: Clone>(&self, holding: &H) -> Option<Effect<N, H>> {
        match self {
            Self::Held { epoch, custody, is_adopted: false, .. } => {
                Some(Effect::Adopt { holding: holding.clone(), epoch: *epoch, custody: *custody })
            }
            _ => None,
        }
    }
}
