//! The connection of a node that commits, and the outcome of a commit whose answer was lost.
//!
//! A lost answer leaves two possibilities, and the transaction may even still be running. A new connection first
//! raises the writer's number under the log lock: from then on the old transaction can no longer commit. Only after
//! that does the record tell the outcome, and it stays what it is.

/// The writer of one process. `C` is a commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writer<C> {
    /// The number of the connection; none while it is being made.
    number: Option<u64>,
    /// The commit that was sent and has no known outcome.
    flight: Option<C>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened<C> {
    /// A commit waits to be sent.
    Submitted(C),
    /// The database has answered the commit that was sent.
    Answered(Outcome),
    /// The connection is lost, or an answer did not come in time.
    Lost,
    /// A new connection has this number.
    Connected(u64),
    /// The record was read: it holds the commit that was in doubt, or not.
    Found(bool),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<C> {
    Connect,
    Send {
        number: u64,
        commit: C,
    },
    /// Read if the record holds this commit.
    Probe(C),
    Settled(C, Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Stored,
    /// The transaction was refused, by a fence or a conflict.
    Refused,
    /// The transaction was lost and can no longer commit.
    Never,
}

impl<C> Default for Writer<C> {
    fn default() -> Self {
        Self { number: None, flight: None }
    }
}

impl<C: Clone> Writer<C> {
    /// Tells if the connection has its number.
    pub fn is_connected(&self) -> bool {
        self.number.is_some()
    }

    /// Tells if a commit can be sent now.
    pub fn is_free(&self) -> bool {
        self.number.is_some() && self.flight.is_none()
    }

    /// The commit without a known outcome.
    pub fn flight(&self) -> Option<&C> {
        self.flight.as_ref()
    }

    /// Advances by one input. An answer of an older connection must not be passed on: the caller drops it with the
    /// connection.
    pub fn step(&mut self, happened: Happened<C>) -> Option<Next<C>> {
        match happened {
            Happened::Submitted(commit) => {
                let number = self.number.filter(|_| self.flight.is_none())?;
                self.flight = Some(commit.clone());
                Some(Next::Send { number, commit })
            }
            Happened::Answered(outcome) => self.settle(outcome),
            Happened::Lost => {
                self.number = None;
                Some(Next::Connect)
            }
            Happened::Connected(number) => {
                self.number = Some(number);
                self.flight.clone().map(Next::Probe)
            }
            Happened::Found(is_there) => self.settle(if is_there { Outcome::Stored } else { Outcome::Never }),
        }
    }

    fn settle(&mut self, outcome: Outcome) -> Option<Next<C>> {
        self.number?;
        self.flight.take().map(|commit| Next::Settled(commit, outcome))
    }
}
