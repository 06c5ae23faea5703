//! Chat services to test against, as strict as the real ones, on loopback.
//!
//! Each fake speaks its service's wire and enforces its limits. What they share is the [`stage`]: what a person would
//! see, what goes wrong on purpose, and a control interface over HTTP for tests in other languages.

pub mod slack;
pub mod stage;
pub mod telegram;
pub mod tls;
pub mod whatsapp;
