//! Plugins that come with Baton.

pub mod auto_commit;
