//! The model: three processes, the database between them, and everything that can happen next.

use super::{
    database::{Commit, Database, NODES, OWN, Prompt, SHARED, TestTransaction, What, Written},
    mistakes::Mistake,
    monitor::{Monitor, Origin, Verdict},
    process::{Actor, Ask, Flight, Life, Link, Process, TERMS},
};
use crate::fleet::{
    Effect, HoldingView, Input, Refusal, Ruling, Transaction, View,
    order::Live,
    writer::{Happened, Next, Outcome},
};

/// One thing that happens. Numbers are a node, a workspace or a place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Tick,
    Start(u8),
    Crash(u8),
    Pause(u8),
    Resume(u8),
    Link(u8, Link),
    Drain(u8),
    /// The database runs a transaction and answers.
    Execute(u8, usize),
    /// The part of a commit before the log lock runs; only planted mistakes need it.
    Begin(u8, usize),
    /// A connection breaks; its transaction may still run.
    Lose(u8, usize),
    /// A transaction of a broken connection runs.
    Late(usize),
    Tail(u8),
    Use(u8, u8),
    Submit(u8, u8),
    Run(u8, u8),
    Admit(u8, u8),
    Tool(u8, u8),
    Finish(u8, u8),
    Repair(u8, u8),
    Checkpoint(u8, u8),
    /// The owner publishes a live event, and a feed carries it to the others.
    Emit(u8, u8),
    Show(u8),
    GiveBack(u8, u8),
    /// The replica falls behind.
    Lag,
    Failover,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FleetModel {
    pub(super) db: Database,
    pub(super) replica: Option<Box<Database>>,
    pub(super) late: Vec<Flight>,
    pub(super) processes: [Process; 3],
    /// The next prompt of each workspace's client. It is sent until it is acknowledged.
    pub(super) clients: [Prompt; 2],
    pub(super) frame: Option<(u8, Live)>,
    pub(super) monitor: Monitor,
    pub(super) ids: u16,
    pub(super) mistake: Option<Mistake>,
}

pub(super) fn at(number: u8) -> usize {
    usize::from(number)
}

impl FleetModel {
    /// Three processes that have just started.
    pub(super) fn new() -> Self {
        let process = |node| Process::new(Origin { node, process: 0, connection: 0 });
        let mut model = Self {
            db: Database::new(),
            replica: None,
            late: Vec::new(),
            processes: [0, 1, 2].map(process),
            clients: [Prompt { number: 0, attempt: 0 }; 2],
            frame: None,
            monitor: Monitor::default(),
            ids: 0,
            mistake: None,
        };
        for node in 0..NODES {
            model.feed(node, Input::Tick).unwrap();
        }
        model
    }

    pub(super) fn process(&self, node: u8) -> &Process {
        &self.processes[at(node)]
    }

    pub(super) fn process_mut(&mut self, node: u8) -> &mut Process {
        &mut self.processes[at(node)]
    }

    pub(super) fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Does one thing and checks the rules.
    pub(super) fn act(&mut self, action: Action) -> Verdict {
        match action {
            Action::Tick => self.tick()?,
            Action::Start(node) => self.start(node)?,
            Action::Crash(node) => self.crash(node),
            Action::Pause(node) => self.process_mut(node).life = Life::Paused,
            Action::Resume(node) => self.resume(node)?,
            Action::Link(node, link) => self.process_mut(node).link = link,
            Action::Drain(node) => self.feed(node, Input::Drain)?,
            Action::Execute(node, index) => self.execute(node, index)?,
            Action::Begin(node, index) => self.begin(node, index),
            Action::Lose(node, index) => {
                let flight = self.process_mut(node).flights.remove(index);
                self.keep_late(flight.clone());
                self.lose(node, flight)?;
            }
            Action::Late(index) => {
                let flight = self.late.remove(index);
                self.perform(flight)?;
            }
            Action::Tail(node) => self.tail(node)?,
            Action::Use(node, workspace) => {
                let holding_view = self.holding_view(node, workspace);
                self.feed(node, Input::Use(workspace, holding_view))?;
            }
            Action::Submit(node, workspace) => self.submit(node, workspace),
            Action::Run(node, workspace) => {
                let next = self.process(node).actor(workspace).and_then(|actor| actor.memory.waiting.first());
                if let Some(prompt) = next.copied() {
                    self.commit(node, workspace, What::Busy(prompt));
                }
            }
            Action::Admit(node, workspace) => self.commit(node, workspace, What::Admit),
            Action::Tool(node, workspace) => self.ask_tool(node, workspace)?,
            Action::Finish(node, workspace) => {
                self.process_mut(node).tools[at(workspace)] = false;
                self.commit(node, workspace, What::Idle);
            }
            Action::Repair(node, workspace) => self.commit(node, workspace, What::Interrupt),
            Action::Checkpoint(node, workspace) => self.commit(node, workspace, What::Checkpoint),
            Action::Emit(node, workspace) => self.emit(node, workspace)?,
            Action::Show(node) => self.show(node)?,
            Action::GiveBack(node, workspace) => {
                self.process_mut(node).actors[at(workspace)] = None;
                self.feed(node, Input::GiveBack(workspace))?;
            }
            Action::Lag => self.replica = Some(Box::new(self.db.clone())),
            Action::Failover => self.failover()?,
        }
        self.connect();
        Ok(())
    }

    /// Tells the protocol of one node what happened, and how long ago the last thing was.
    pub(super) fn feed(&mut self, node: u8, input: Input<u8, u8>) -> Verdict {
        let process = self.process_mut(node);
        let elapsed = process.clock * u32::from(std::mem::take(&mut process.owed));
        let effects = process.node.step(elapsed, input);
        for effect in effects {
            self.carry_out(node, &effect)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, node: u8, effect: &Effect<u8, u8>) -> Verdict {
        match *effect {
            Effect::Send(beat @ Transaction::Beat { .. }) => return self.beat(node, beat),
            Effect::Send(transaction) => self.send(node, transaction),
            Effect::Look => return self.look(node),
            Effect::Guard(time) => self.process_mut(node).guard = time,
            Effect::Adopt { holding, epoch, custody } => return self.adopt(node, holding, epoch, custody),
            Effect::Quit(holding) => self.stop(node, holding),
            Effect::StepBack => self.stop(node, SHARED),
            Effect::StartOver => self.start_over(node),
            Effect::Begin(holding) => return self.begin_tool(node, holding),
            Effect::GoOn | Effect::Refuse(_) => {}
        }
        Ok(())
    }

    fn tick(&mut self) -> Verdict {
        for node in 0..NODES {
            let late = self.has(Mistake::WatchdogFromLastHeard) && self.process(node).is_running();
            let process = self.process_mut(node);
            process.pass();
            if late {
                process.guard = TERMS.step_back();
            }
            if process.guard.is_zero() {
                process.tools[at(SHARED)] = false;
            }
        }
        for node in 0..NODES {
            if self.process(node).is_running() {
                self.deliver_late(node)?;
                self.feed(node, Input::Tick)?;
            }
        }
        Ok(())
    }

    /// Sends a beat on its own connection. It does not wait for the log lock, so it runs at once.
    fn beat(&mut self, node: u8, beat: TestTransaction) -> Verdict {
        self.process_mut(node).asked = 0;
        let link = self.process(node).link;
        if link == Link::Cut {
            return self.feed(node, Input::Lost(beat));
        }
        let answer = self.db.apply(&beat, self.mistake);
        match link {
            Link::Mute => self.feed(node, Input::Lost(beat)),
            Link::Slow => {
                self.process_mut(node).late = Some((beat, answer));
                Ok(())
            }
            _ => self.answer_beat(node, beat, answer),
        }
    }

    fn answer_beat(&mut self, node: u8, beat: TestTransaction, answer: Ruling) -> Verdict {
        let process = self.process_mut(node);
        if answer == Ruling::Done {
            process.age = process.asked;
        }
        self.feed(node, Input::Answered(beat, answer))
    }

    pub(super) fn deliver_late(&mut self, node: u8) -> Verdict {
        let Some((beat, answer)) = self.process_mut(node).late.take() else { return Ok(()) };
        if self.has(Mistake::LeaseFromAnswer) {
            self.process_mut(node).owed = 0;
        }
        self.answer_beat(node, beat, answer)
    }

    fn send(&mut self, node: u8, transaction: TestTransaction) {
        let process = self.process_mut(node);
        let ask = Ask::Change(transaction);
        if matches!(transaction, Transaction::Register { .. }) {
            process.asked = 0;
        }
        if !process.has_asked(&ask) {
            process.flights.push(Flight { origin: process.origin, ask, begun: None });
        }
    }

    fn holding_view(&self, node: u8, workspace: u8) -> HoldingView<u8> {
        let row = self.db.record.holdings[&workspace];
        let is_unfinished = self.db.session(workspace).is_unfinished();
        HoldingView { row, is_unfinished, rank: self.db.rank(node) }
    }

    fn look(&mut self, node: u8) -> Verdict {
        if matches!(self.process(node).link, Link::Cut | Link::Mute) {
            return self.feed(node, Input::LookFailed);
        }
        self.db.greet(self.mistake);
        let holdings = [OWN, SHARED].map(|workspace| (workspace, self.holding_view(node, workspace))).into();
        let view = View { members: self.db.record.members.clone(), holdings };
        self.feed(node, Input::Looked(view))
    }

    /// Loads the session and repairs it if a turn is open. A commit in doubt may still change it, so its outcome comes
    /// first.
    fn adopt(&mut self, node: u8, workspace: u8, epoch: u64, custody: bool) -> Verdict {
        let process = self.process(node);
        let is_under_way = process.actor(workspace).is_some_and(|actor| actor.epoch == epoch);
        let is_clear = process.writer.is_free() || self.has(Mistake::AdoptsInDoubt);
        if process.link != Link::Up || !is_clear || is_under_way {
            return Ok(());
        }
        let custody = custody && !self.has(Mistake::CustodyRunsTurns);
        let mut actor = Actor::new(epoch, custody, self.db.session(workspace).clone());
        actor.is_repaired |= self.has(Mistake::RecoveryAtStartOnly);
        let is_repaired = actor.is_repaired;
        self.process_mut(node).actors[at(workspace)] = Some(actor);
        if is_repaired { self.feed(node, Input::Adopted { holding: workspace, epoch }) } else { Ok(()) }
    }

    /// Drops an actor and its tools, and publishes nothing.
    pub(super) fn stop(&mut self, node: u8, workspace: u8) {
        let process = self.process_mut(node);
        process.tools[at(workspace)] = false;
        let actor = process.actors[at(workspace)].take();
        if actor.is_some_and(|actor| actor.is_running) && self.has(Mistake::LiveIdleOnGivingUp) {
            self.monitor.live_idle(node, workspace);
        }
    }

    /// Every running node without a writing connection opens one.
    fn connect(&mut self) {
        for node in 0..NODES {
            let process = self.process_mut(node);
            let Some(by) = process.node.identity().filter(|_| process.life == Life::Running) else {
                continue;
            };
            let ask = Ask::Change(Transaction::Connect { by });
            if !process.writer.is_connected() && !process.has_asked(&ask) {
                process.origin.connection += 1;
                process.flights.push(Flight { origin: process.origin, ask, begun: None });
            }
        }
    }

    fn begin(&mut self, node: u8, index: usize) {
        let flight = &mut self.processes[at(node)].flights[index];
        if let Ask::Write(commit) = &flight.ask {
            flight.begun = Some(self.db.begin(commit, self.mistake));
        }
    }

    fn execute(&mut self, node: u8, index: usize) -> Verdict {
        let flight = self.process_mut(node).flights.remove(index);
        let result = self.perform(flight.clone())?;
        if self.process(node).link == Link::Mute {
            return self.lose(node, flight);
        }
        match (flight.ask, result) {
            (Ask::Change(transaction), Performed::Changed(answer)) => self.answer(node, transaction, answer),
            (Ask::Write(_), Performed::Written(written)) => self.answer_commit(node, written),
            _ => Ok(()),
        }
    }

    /// The database runs a transaction.
    fn perform(&mut self, flight: Flight) -> Result<Performed, String> {
        match &flight.ask {
            Ask::Change(transaction) => {
                let answer = self.db.apply(transaction, self.mistake);
                self.monitor.applied(flight.origin, transaction, answer)?;
                if let (Transaction::Declare { node, .. }, Ruling::Done) = (transaction, answer) {
                    self.was_silent(*node)?;
                }
                Ok(Performed::Changed(answer))
            }
            Ask::Write(commit) => {
                let written = self.db.write(commit, flight.begun, self.mistake);
                self.monitor.written(flight.origin, commit, written, &self.db)?;
                Ok(Performed::Written(written))
            }
        }
    }

    /// The lease's promise, and the base of I7: a node that is declared dead has stepped back by its own clock, and the
    /// watchdog has killed its tools.
    fn was_silent(&self, node: u8) -> Verdict {
        let process = self.process(node);
        let is_this = process
            .node
            .identity()
            .is_some_and(|identity| self.db.record.members[&node].incarnation <= identity.incarnation + 1);
        if is_this && process.measured() < TERMS.step_back() {
            return Err(format!("I7: node {node} was declared dead {} ticks after its beat", process.age));
        }
        if process.tools[at(SHARED)] {
            return Err(format!("I7: node {node} was declared dead while its tool was running"));
        }
        Ok(())
    }

    fn answer(&mut self, node: u8, transaction: TestTransaction, answer: Ruling) -> Verdict {
        if let (Transaction::Connect { .. }, Ruling::Connected { writer }) = (transaction, answer) {
            let probed = self.process_mut(node).writer.step(Happened::Connected(writer));
            return self.probe(node, probed);
        }
        if let Ruling::Registered { .. } = answer {
            let process = self.process_mut(node);
            process.age = process.asked;
        }
        self.feed(node, Input::Answered(transaction, answer))
    }

    fn probe(&mut self, node: u8, next: Option<Next<Commit>>) -> Verdict {
        let Some(Next::Probe(commit)) = next else { return Ok(()) };
        let found = self.db.holds(&commit);
        let settled = self.process_mut(node).writer.step(Happened::Found(found));
        self.settled(node, settled)
    }

    fn answer_commit(&mut self, node: u8, written: Written) -> Verdict {
        let outcome = match written {
            Written::Stored(_) | Written::Nothing => Outcome::Stored,
            Written::Fenced(_) | Written::Conflict => Outcome::Refused,
        };
        let commit = self.process(node).writer.flight().cloned();
        let settled = self.process_mut(node).writer.step(Happened::Answered(outcome));
        self.settled(node, settled)?;
        match (written, commit) {
            (Written::Stored(position), _) => self.publish_own(node, position),
            (Written::Fenced(Refusal::Writer), _) => {
                self.process_mut(node).writer.step(Happened::Lost);
                Ok(())
            }
            (Written::Fenced(why), Some(commit)) => {
                let fence = commit.fence;
                let input = Input::Fenced { by: fence.by, holding: fence.holding, epoch: fence.epoch, why };
                self.feed(node, input)
            }
            _ => Ok(()),
        }
    }

    fn settled(&mut self, node: u8, next: Option<Next<Commit>>) -> Verdict {
        let Some(Next::Settled(commit, outcome)) = next else { return Ok(()) };
        if outcome == Outcome::Never {
            self.monitor.denied(commit.id);
            let gives_up = commit.what == What::Interrupt && self.has(Mistake::AdoptsOnce);
            if let Some(actor) = &mut self.process_mut(node).actors[at(commit.session())] {
                actor.has_given_up |= gives_up;
            }
        }
        if outcome != Outcome::Stored {
            return Ok(());
        }
        if let What::Accept(prompt) = commit.what {
            self.acknowledge(commit.session(), prompt);
        }
        let event = self.db.log.iter().find(|event| event.id == commit.id).cloned();
        let actor = self.process_mut(node).actors[at(commit.session())].as_mut();
        let Some(actor) = actor.filter(|actor| actor.epoch == commit.fence.epoch) else { return Ok(()) };
        if let Some(event) = event {
            actor.memory.fold(&event);
        }
        match commit.what {
            What::Busy(_) => (actor.is_running, actor.is_admitted) = (true, false),
            What::Admit => actor.is_admitted = true,
            What::Idle => (actor.is_running, actor.is_admitted) = (false, false),
            What::Interrupt => {
                actor.is_repaired = true;
                let input = Input::Adopted { holding: commit.session(), epoch: commit.fence.epoch };
                return self.feed(node, input);
            }
            What::Accept(_) | What::Checkpoint => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self, session: u8, prompt: Prompt) {
        let client = &mut self.clients[at(session)];
        if client.number == prompt.number {
            *client = Prompt { number: prompt.number + 1, attempt: 0 };
        }
    }

    pub(super) fn lose(&mut self, node: u8, flight: Flight) -> Verdict {
        match flight.ask {
            Ask::Change(Transaction::Connect { .. }) => Ok(()),
            Ask::Change(transaction) => self.feed(node, Input::Lost(transaction)),
            Ask::Write(commit) => {
                if self.has(Mistake::ProbeWithoutConnect) {
                    return self.probe(node, Some(Next::Probe(commit)));
                }
                self.process_mut(node).writer.step(Happened::Lost);
                Ok(())
            }
        }
    }
}

enum Performed {
    Changed(Ruling),
    Written(Written),
}
