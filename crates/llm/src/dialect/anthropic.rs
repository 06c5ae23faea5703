//! Anthropic's Messages API and compatible servers.

mod decode;
mod encode;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// Key of this dialect's metadata.
const NAME: &str = "anthropic";
