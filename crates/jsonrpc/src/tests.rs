//! Tests of the codec and of the peer.

mod codec;
mod peer;
