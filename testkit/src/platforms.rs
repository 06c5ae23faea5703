//! Chat services to test against, as strict as the real ones, on loopback.
//!
//! Each fake speaks its service's protocol and enforces its limits. They share the [`stage`]: the messages that a
//! user would see, planned failures, and an HTTP control interface for tests in other languages.

pub mod slack;
pub mod stage;
pub mod telegram;
pub mod tls;
pub mod whatsapp;
