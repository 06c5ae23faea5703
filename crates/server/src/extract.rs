//! How handlers get at what a client sent. Whatever does not fit is answered here, with a sentence that says
//! what was wrong with which piece, so that handlers only ever see what they asked for.

mod body;
mod directory;
mod link;
mod params;
mod query;

pub use body::{BODY_DEADLINE, Body, MAX_BODY, MAX_NESTING, MAX_VALUES, OptionalBody};
pub use directory::Directory;
pub use link::Link;
pub use params::{FromPath, Params, Tail};
pub use query::Query;
