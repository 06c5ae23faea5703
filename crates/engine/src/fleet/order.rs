//! The order of events: positions, the tail that publishes them, and the gate for live events.

/// Positions of one generation. JavaScript holds the positions of 8,191 generations exactly.
const PER_GENERATION: u64 = 1 << 40;

/// A place in the log: a generation and a number in it. Generation 0 has the numbers of a single server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position(u64);

impl Position {
    pub fn new(generation: u64, number: u64) -> Self {
        Self(generation * PER_GENERATION + number)
    }

    /// The position with the number that the log and the cursors of clients use.
    pub fn at(number: u64) -> Self {
        Self(number)
    }

    pub fn generation(self) -> u64 {
        self.0 / PER_GENERATION
    }

    pub fn number(self) -> u64 {
        self.0 % PER_GENERATION
    }

    /// The inverse of [`Position::at`].
    pub fn get(self) -> u64 {
        self.0
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The answer to a client that resumes at a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resume {
    /// Every event after the cursor can be replayed.
    Replay,
    /// This node has not seen the cursor's position yet: wait for the tail, then ask again.
    Wait,
    /// A failover has lost events that the client has seen.
    Resync,
}

/// The point up to which a node has published the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Tail {
    last: Position,
    /// The last position of each generation that has ended.
    ends: Vec<Position>,
}

impl Tail {
    /// A tail that begins after a position: the newest when the node opened the log.
    pub fn after(last: Position) -> Self {
        Self { last, ends: Vec::new() }
    }

    pub fn last(&self) -> Position {
        self.last
    }

    /// Tells if the event at this position comes next, and if so moves on. An event that a commit of this node has in
    /// memory is refused while others lie before it; the tail reads them from the log first.
    pub fn publish(&mut self, position: Position) -> bool {
        let is_next = position == self.last.next();
        if is_next {
            self.last = position;
        }
        is_next
    }

    /// Enters the next generation, which continues after `end`, the last position that the failover has kept. Returns
    /// true if events were published that no longer exist, so that clients have to read the state again.
    pub fn enter(&mut self, generation: u64, end: Position) -> bool {
        let has_lost = self.last > end;
        self.ends.push(end);
        self.last = Position::new(generation, 0);
        has_lost
    }

    /// Judges a cursor. A cursor of an older generation is good up to that generation's end.
    pub fn judge(&self, cursor: Position) -> Resume {
        let end = self.ends.iter().find(|end| end.generation() == cursor.generation());
        if end.is_some_and(|end| cursor > *end) {
            Resume::Resync
        } else if cursor > self.last {
            Resume::Wait
        } else {
            Resume::Replay
        }
    }
}

/// A live event as a node receives it from the owner of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Live {
    pub epoch: u64,
    /// The durable event of the session that it follows.
    pub after: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Publish,
    /// The tail has not reached the durable event before it.
    Hold,
    Drop,
}

/// Decides if a live event of one session may still be published. The transport may lose, repeat and reorder live
/// events, and a client must not see one after the idle of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gate {
    seq: u64,
    epoch: u64,
    /// The newest idle of the session.
    idle: u64,
}

impl Gate {
    /// Takes in a durable event that the tail has published.
    pub fn pass(&mut self, seq: u64, epoch: u64, is_idle: bool) {
        (self.seq, self.epoch) = (seq, epoch);
        if is_idle {
            self.idle = seq;
        }
    }

    pub fn judge(&self, live: Live) -> Verdict {
        if live.epoch < self.epoch || live.after < self.idle {
            Verdict::Drop
        } else if live.epoch > self.epoch || live.after > self.seq {
            // A turn begins with a durable event of its epoch. Until the tail has published one, the numbers of this
            // session may be those of a history that a failover has ended.
            Verdict::Hold
        } else {
            Verdict::Publish
        }
    }
}
