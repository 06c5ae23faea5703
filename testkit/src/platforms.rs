//! Chat services to test against, as strict as the real ones, on loopback.
//!
//! Each fake speaks its service's protocol and enforces its limits. They share the [`service_state`]: the messages that a
//! user would see, planned failures, and an HTTP control interface for tests in other languages.

pub mod service_state;
pub mod slack;
pub mod telegram;
pub mod tls;
pub mod whatsapp;
