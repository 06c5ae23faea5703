//! `OpenAI`'s Responses, stateless: nothing is stored there, and reasoning goes back encrypted.

mod decode;
mod encode;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// The name under which metadata of this dialect is kept.
const NAME: &str = "openai";

/// The item's id.
const ITEM: &str = "itemId";

/// The reasoning itself, readable by the provider only.
const ENCRYPTED: &str = "reasoningEncryptedContent";
