//! `OpenAI`'s Chat Completions and its imitators: Ollama, llama.cpp, vLLM, LM Studio, `OpenRouter`, Groq,
//! `DeepSeek`, Mistral and a hundred more. They agree on text and differ in the rest, so reading is lenient and
//! writing keeps to what all of them take.

mod calls;
mod decode;
mod encode;
mod usage;

pub(super) use decode::Decode;
pub(super) use encode::encode;

/// The name under which the field that reasoning came in is kept.
const COMPATIBLE: &str = "openaiCompatible";

/// That field's name.
const FIELD: &str = "reasoningField";

/// The name under which a router's reasoning is kept.
const ROUTER: &str = "openrouter";

/// The router's list, there as here.
const DETAILS: &str = "reasoning_details";
