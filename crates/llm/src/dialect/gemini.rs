//! Google's `generateContent`, streamed.
//!
//! Gemini signs its thoughts, and the signature is attached to whatever part they led to: a call, a text or the
//! thought itself. Here it travels as the metadata of a reasoning block, with a word on what it signs; a block
//! without text is made where there is none. Without the signature, newer models refuse the next call.

mod decode;
mod encode;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// The name under which metadata of this dialect is kept.
const NAME: &str = "google";

/// The signature.
const SIGNATURE: &str = "thoughtSignature";

/// What it signs; the thought itself if this is absent.
const SIGNS: &str = "signs";

/// The call that follows.
const CALL: &str = "call";

/// The text before.
const TEXT: &str = "text";
