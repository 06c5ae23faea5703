//! Single-use tickets that open a terminal's WebSocket within a short time.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use axum::extract::Query;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use engine::ports::{Random, SystemRandom};
use http::Uri;
use parking_lot::Mutex;
use protocol::PtyId;
use serde::Deserialize;
use tokio::time::Instant;

/// Lifetime of a ticket.
pub const TICKET: Duration = Duration::from_mins(1);
/// Most unused tickets; beyond that the oldest is dropped.
pub const MAX_TICKETS: usize = 256;

/// Unused tickets. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tickets {
    issued: Arc<Mutex<HashMap<String, Ticket>>>,
}

#[derive(Clone)]
struct Ticket {
    terminal: PtyId,
    until: Instant,
}

impl fmt::Debug for Tickets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tickets")
    }
}

impl Tickets {
    /// Issues a ticket for a terminal.
    pub(crate) fn issue(&self, terminal: PtyId) -> String {
        let mut bytes = [0; 32];
        SystemRandom.fill(&mut bytes);
        let ticket = URL_SAFE_NO_PAD.encode(bytes);
        self.admit(ticket.clone(), terminal);
        ticket
    }

    /// Accepts a ticket that another node has issued for its terminal. This node only lets its holder pass.
    pub(crate) fn admit(&self, ticket: String, terminal: PtyId) {
        let now = Instant::now();
        let mut issued = self.issued.lock();
        issued.retain(|_, ticket| ticket.until > now);
        if issued.len() >= MAX_TICKETS
            && let Some(oldest) =
                issued.iter().min_by_key(|(_, ticket)| ticket.until).map(|(name, _)| name.clone())
        {
            issued.remove(&oldest);
        }
        issued.insert(ticket, Ticket { terminal, until: now + TICKET });
    }

    /// Consumes a ticket. Returns true if it was valid for this terminal.
    pub(crate) fn redeem(&self, ticket: &str, terminal: &PtyId) -> bool {
        self.issued.lock().remove(ticket).is_some_and(|ticket| ticket.fits(terminal))
    }

    /// Returns true if a call to a terminal's WebSocket carries a valid ticket. Does not consume it; the route
    /// does.
    pub(crate) fn open(&self, uri: &Uri) -> bool {
        #[derive(Deserialize)]
        struct Named {
            ticket: String,
        }
        let Some(terminal) = terminal(uri.path()) else { return false };
        let Ok(Query(Named { ticket })) = Query::<Named>::try_from_uri(uri) else { return false };
        self.issued.lock().get(&ticket).is_some_and(|ticket| ticket.fits(&terminal))
    }
}

impl Ticket {
    fn fits(&self, terminal: &PtyId) -> bool {
        self.terminal == *terminal && self.until > Instant::now()
    }
}

/// The terminal of a WebSocket path.
fn terminal(path: &str) -> Option<PtyId> {
    let path = path.strip_prefix("/api").unwrap_or(path);
    path.strip_prefix("/pty/")?.strip_suffix("/connect")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> PtyId {
        text.parse().unwrap()
    }

    fn opens(tickets: &Tickets, uri: &str) -> bool {
        tickets.open(&uri.parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_opens_one_terminal_once_and_soon() {
        let tickets = Tickets::default();
        let ticket = tickets.issue(id("pty_1"));
        for path in ["/pty/pty_1/connect", "/api/pty/pty_1/connect"] {
            assert!(opens(&tickets, &format!("{path}?cursor=0&ticket={ticket}")));
        }
        for path in ["/pty/pty_2/connect", "/pty/pty_1", "/pty", "/session", "/pty/pty_1/connect/x"] {
            assert!(!opens(&tickets, &format!("{path}?ticket={ticket}")), "{path}");
        }
        assert!(!opens(&tickets, "/pty/pty_1/connect"));
        assert!(tickets.redeem(&ticket, &id("pty_1")));
        assert!(!tickets.redeem(&ticket, &id("pty_1")), "twice");
        let other = tickets.issue(id("pty_1"));
        assert!(!tickets.redeem(&other, &id("pty_2")), "of another terminal");
        let late = tickets.issue(id("pty_1"));
        tokio::time::advance(TICKET).await;
        assert!(!opens(&tickets, &format!("/pty/pty_1/connect?ticket={late}")));
        assert!(!tickets.redeem(&late, &id("pty_1")), "too late");
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_ticket_goes_when_there_are_too_many() {
        let tickets = Tickets::default();
        let first = tickets.issue(id("pty_1"));
        tokio::time::advance(Duration::from_secs(1)).await;
        let others: Vec<_> = (0..MAX_TICKETS).map(|_| tickets.issue(id("pty_1"))).collect();
        assert!(!tickets.redeem(&first, &id("pty_1")));
        assert!(others.iter().all(|ticket| tickets.redeem(ticket, &id("pty_1"))));
    }
}
