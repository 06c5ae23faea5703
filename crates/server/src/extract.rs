//! Extractors for handlers. They answer invalid input themselves, with a message that names the invalid piece,
//! so that handlers only see valid values.

pub(crate) mod body;
mod client_name;
pub(crate) mod directory;
mod link;
mod params;
mod query;
mod sent;

pub use body::{BODY_DEADLINE, Body, MAX_BODY, MAX_NESTING, MAX_VALUES, OptionalBody};
pub use client_name::ClientName;
pub use directory::Directory;
pub use link::Link;
pub use params::{FromPath, Params, Tail};
pub use query::Query;
pub use sent::Sent;
