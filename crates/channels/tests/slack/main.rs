//! Tests of the Slack adapter with a strict fake.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod calls;
mod room;
mod sending;
mod socket;
