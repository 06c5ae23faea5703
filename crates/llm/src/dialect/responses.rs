//! `OpenAI`'s Responses API without server-side state: nothing is stored there, and reasoning is sent back
//! encrypted.

mod decode;
mod encode;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// Key of this dialect's metadata.
const NAME: &str = "openai";

/// Metadata field of the item's id.
const ITEM: &str = "itemId";

/// Metadata field of the encrypted reasoning.
const ENCRYPTED: &str = "reasoningEncryptedContent";
