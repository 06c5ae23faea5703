//! `OpenAI`'s Chat Completions API and compatible servers: Ollama, llama.cpp, vLLM, LM Studio, `OpenRouter`,
//! Groq, `DeepSeek`, Mistral and a hundred more. They agree on text and differ in the rest, so decoding is
//! lenient and encoding uses only what all of them accept.

mod calls;
mod decode;
mod encode;
mod usage;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// Metadata key of the field in which reasoning arrived.
const COMPATIBLE: &str = "openaiCompatible";

/// Name of that field.
const FIELD: &str = "reasoningField";

/// Metadata key of a router's reasoning.
const ROUTER: &str = "openrouter";

/// Field of a router's reasoning, on the wire and in the metadata.
const DETAILS: &str = "reasoning_details";
