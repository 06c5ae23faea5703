//! The verbs of Baton: turns, their lifecycle, and everybody who watches.

pub mod memory;
pub mod ports;
pub mod session;
