//! Maps the package that OpenCode would use for a model to its dialect and default address.

use super::{Model, Provider};
use crate::dialect::Dialect;
use crate::transport::KeyHeader;

/// Properties of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) dialect: Dialect,
    pub(super) key: KeyHeader,
    /// Default address.
    pub(super) url: Option<&'static str>,
}

/// Supported packages.
const PACKAGES: [(&str, Dialect, Option<&str>); 25] = {
    use Dialect::{Anthropic, Chat, Gemini, Responses};
    [
        ("@ai-sdk/anthropic", Anthropic, Some("https://api.anthropic.com/v1")),
        ("@ai-sdk/openai", Responses, Some("https://api.openai.com/v1")),
        ("@ai-sdk/azure", Responses, None),
        ("@ai-sdk/xai", Responses, Some("https://api.x.ai/v1")),
        ("@ai-sdk/amazon-bedrock/mantle", Responses, None),
        ("@ai-sdk/google", Gemini, Some("https://generativelanguage.googleapis.com/v1beta")),
        // With an API key. Google Cloud accounts are not supported.
        ("@ai-sdk/google-vertex", Gemini, Some("https://aiplatform.googleapis.com/v1/publishers/google")),
        ("@ai-sdk/openai-compatible", Chat, None),
        ("@ai-sdk/github-copilot", Chat, None),
        ("@ai-sdk/groq", Chat, Some("https://api.groq.com/openai/v1")),
        ("@ai-sdk/mistral", Chat, Some("https://api.mistral.ai/v1")),
        ("@ai-sdk/cerebras", Chat, Some("https://api.cerebras.ai/v1")),
        ("@ai-sdk/deepinfra", Chat, Some("https://api.deepinfra.com/v1/openai")),
        ("@ai-sdk/deepseek", Chat, Some("https://api.deepseek.com")),
        ("@ai-sdk/fireworks", Chat, Some("https://api.fireworks.ai/inference/v1")),
        ("@ai-sdk/togetherai", Chat, Some("https://api.together.xyz/v1")),
        ("@ai-sdk/cohere", Chat, Some("https://api.cohere.ai/compatibility/v1")),
        ("@ai-sdk/perplexity", Chat, Some("https://api.perplexity.ai")),
        ("@ai-sdk/moonshotai", Chat, Some("https://api.moonshot.ai/v1")),
        ("@ai-sdk/alibaba", Chat, Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1")),
        ("@ai-sdk/vercel", Chat, Some("https://api.v0.dev/v1")),
        ("@ai-sdk/gateway", Chat, Some("https://ai-gateway.vercel.sh/v1")),
        ("@openrouter/ai-sdk-provider", Chat, Some("https://openrouter.ai/api/v1")),
        ("@aihubmix/ai-sdk-provider", Chat, Some("https://aihubmix.com/v1")),
        ("venice-ai-sdk-provider", Chat, Some("https://api.venice.ai/api/v1")),
    ]
};

/// Azure's addresses by provider id.
const AZURE: [(&str, &str); 2] = [
    ("azure", "https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1"),
    (
        "azure-cognitive-services",
        "https://${AZURE_COGNITIVE_SERVICES_RESOURCE_NAME}.cognitiveservices.azure.com/openai/v1",
    ),
];

/// The package of a model.
pub(super) fn name<'p>(provider: &'p Provider, model: &'p Model) -> &'p str {
    model.npm.as_deref().unwrap_or(&provider.npm)
}

/// The properties of a model's package, if it is supported.
pub(super) fn find(provider: &Provider, model: &Model) -> Option<Package> {
    let name = name(provider, model);
    let (_, dialect, url) = PACKAGES.iter().copied().find(|(known, ..)| *known == name)?;
    let azure = name == "@ai-sdk/azure";
    let dialect = if provider.completions && dialect == Dialect::Responses { Dialect::Chat } else { dialect };
    let url = if azure { AZURE.iter().find(|(id, _)| *id == provider.id).map(|(_, url)| *url) } else { url };
    let key = match dialect {
        Dialect::Anthropic => KeyHeader::XApiKey,
        Dialect::Gemini => KeyHeader::XGoogApiKey,
        Dialect::Responses | Dialect::Chat if azure => KeyHeader::ApiKey,
        Dialect::Responses | Dialect::Chat => KeyHeader::Bearer,
    };
    Some(Package { dialect, key, url })
}
