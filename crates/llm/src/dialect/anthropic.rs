//! Anthropic's Messages, and the servers that imitate it.

mod decode;
mod encode;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// The name under which metadata of this dialect is kept.
const NAME: &str = "anthropic";
