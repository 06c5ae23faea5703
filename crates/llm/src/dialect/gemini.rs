//! Google's streamed `generateContent`.
//!
//! Gemini signs its thoughts and attaches the signature to the part they led to: a call, a text or the thought
//! itself. Here it is metadata of a reasoning block, together with what it signs; where there is no such block,
//! an empty one is created. Without the signature, newer models reject the next call.

mod decode;
mod encode;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// Key of this dialect's metadata.
const NAME: &str = "google";

/// Metadata field of the signature.
const SIGNATURE: &str = "thoughtSignature";

/// Metadata field for the signed part; absent for the thought itself.
const SIGNS: &str = "signs";

/// The signature belongs to the following call.
const CALL: &str = "call";

/// The signature belongs to the preceding text.
const TEXT: &str = "text";
