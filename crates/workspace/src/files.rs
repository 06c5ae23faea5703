//! Files of a project: reading within limits, listing, writing and editing, never outside the project by
//! accident.
//!
//! All functions block; call them from a blocking task. Paths come from models and clients as text.
//! [`Root::locate`] resolves such a text to a path without symbolic links and rejects [`Closed`] paths. The
//! other functions take its result and follow no links: they refuse a path that has become a link since.

mod closed;
mod edit;
mod ends;
mod error;
mod list;
mod lock;
mod matching;
mod media;
mod node;
mod open;
mod read;
mod root;
#[cfg(test)]
pub(crate) mod temporary;

pub use closed::Closed;
pub use edit::{Change, Replacement, current, edit, plan, write};
pub(crate) use edit::{save, text};
pub(crate) use ends::{LineEnds, split_mark};
pub use error::Error;
pub use list::{Listing, alike, list};
pub(crate) use lock::hold;
pub use media::{MAX_MEDIA, Media, media, mime};
pub use node::{Node, nodes};
pub(crate) use open::open;
pub use read::{Page, Window, is_binary, load, read};
pub use root::{LocatedPath, Root};

/// Longest file that is read or edited, in bytes. For larger files an agent should use commands.
pub const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Most lines of a file in one page.
pub const MAX_LINES: usize = 2000;

/// Longest line in a page, in characters; the rest is cut.
pub const MAX_LINE: usize = 2000;

/// Largest page, in bytes.
pub const MAX_PAGE: usize = 50 * 1024;

/// Most entries in a listing.
pub const MAX_ENTRIES: usize = 1000;
