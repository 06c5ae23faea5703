//! Default settings and efforts of models.

use super::*;
use crate::{Purpose, Sampling, Secret};

/// One line per model: its default settings and its variants.
fn tuned(id: &str, models: &[&str]) -> String {
    let provider = provider(id).with_environment(&everything).with_key(Secret::new("k"));
    let line = |model: &&str| {
        let known = &provider.models[*model];
        let aim = provider.aim(&request(model)).unwrap();
        let variants: Vec<String> = provider
            .variants(known)
            .iter()
            .map(|(name, settings)| format!("\n    {name}: {}", Value::Object(settings.clone())))
            .collect();
        format!("{id}/{model}: {}{}", Value::Object(aim.target.options), variants.concat())
    };
    models.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn options_depend_on_the_model() {
    let all = [
        tuned(
            "anthropic",
            &[
                "claude-haiku-4-5",
                "claude-opus-4-5",
                "claude-opus-4-6",
                "claude-opus-4-8",
                "claude-opus-5-fast",
            ],
        ),
        tuned(
            "openai",
            &[
                "gpt-4.1",
                "o3",
                "gpt-5",
                "gpt-5-pro",
                "gpt-5.1",
                "gpt-5.2-chat-latest",
                "gpt-5.3-codex",
                "gpt-5.6-pro",
                "gpt-6-sol-fast",
            ],
        ),
        tuned("google", &["gemini-2.5-flash", "gemini-3.1-pro-preview", "gemini-3.7-flash"]),
        tuned("xai", &["grok-4.5"]),
        tuned("zai", &["glm-4.6"]),
        tuned("groq", &["openai/gpt-oss-120b"]),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn sampling_follows_the_model_unless_requested() {
    let google = provider("google").with_key(Secret::new("k"));
    let mut request = request("gemini-2.5-pro");
    let suited = Sampling { temperature: Some(1.0), top_p: Some(0.95), top_k: None };
    assert_eq!(google.aim(&request).unwrap().sampling, suited);
    request.sampling.temperature = Some(0.0);
    assert_eq!(google.aim(&request).unwrap().sampling.temperature, Some(0.0));
}

#[test]
fn side_calls_get_low_effort_only_where_supported() {
    for (id, model) in [("anthropic", "claude-haiku-4-5"), ("deepseek", "deepseek-v4-flash")] {
        let provider = provider(id).with_key(Secret::new("k"));
        let mut request = request(model);
        let usual = provider.aim(&request).unwrap().target.options;
        request.purpose = Purpose::Title;
        assert_eq!(provider.aim(&request).unwrap().target.options, usual);
    }
}
