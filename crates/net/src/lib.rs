//! Outgoing connections, for every room that makes them. A leaf: it knows no other room.
//!
//! - [`tls`]: the one TLS configuration, rustls on `ring` with the system's root certificates.
//! - [`AddressGuard`]: HTTP clients for addresses that a model or a configuration chose. Such an address may point at this
//!   machine or its network, so the guard resolves the name, refuses it unless every address is allowed, and connects
//!   to exactly the addresses that it checked: a DNS answer that changes a moment later has no effect. The client
//!   follows no redirects, because each new address needs the same check.
//! - [`sse`]: an incremental decoder of server-sent events.
//! - [`chain`]: an error together with its causes, as one line.

mod address;
mod guard;
pub mod sse;
pub mod tls;

pub use address::is_public;
pub use guard::{AddressGuard, Lookup, Refused};

/// Formats an error with its causes, because the outermost error of an HTTP library says little.
///
/// Leaves out a cause that the text already contains: transparent errors repeat their source, and some libraries quote
/// it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let next = cause.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Layer {
        #[error("connection refused")]
        Bottom,
        #[error(transparent)]
        Transparent(Box<Layer>),
        #[error("cannot call the server")]
        Outer(#[source] Box<Layer>),
        #[error("cannot start ({0})")]
        Quoting(#[source] Box<Layer>),
    }

    #[test]
    fn a_chain_names_every_cause_once() {
        let bottom = || Box::new(Layer::Bottom);
        assert_eq!(chain(&Layer::Bottom), "connection refused");
        assert_eq!(chain(&Layer::Transparent(bottom())), "connection refused");
        assert_eq!(chain(&Layer::Quoting(bottom())), "cannot start (connection refused)");
        let layers = Layer::Outer(Box::new(Layer::Transparent(bottom())));
        assert_eq!(chain(&layers), "cannot call the server: connection refused");
    }
}
