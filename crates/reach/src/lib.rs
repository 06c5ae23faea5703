//! Calling an address that somebody else chose, without being sent where nobody meant to go.
//!
//! A model may be talked into fetching an address of this machine or its network, and a receiver's name may lead
//! there. So a name is looked up here, refused unless all its addresses may be reached, and connected to by the very
//! addresses that were checked: a name that means something else a moment later changes nothing. Redirects are never
//! followed by themselves, because the next address has to be checked in the same way.

mod address;
mod guard;
pub mod tls;

pub use address::is_public;
pub use guard::{Guard, Lookup, Refused};

/// An error with its reasons; the outermost alone says little.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(reason) = source {
        text.push_str(": ");
        text.push_str(&reason.to_string());
        source = reason.source();
    }
    text
}
