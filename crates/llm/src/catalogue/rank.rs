//! Chooses a default model.

use super::{Model, Provider};

/// Substrings of preferred models; later ones rank higher.
const FAVOURITES: [&str; 4] = ["gpt-5", "claude-sonnet-4", "big-pickle", "gemini-3-pro"];

/// Substrings of small and fast models, best first.
const SMALL: [&str; 8] = [
    "claude-haiku-4-5",
    "claude-haiku-4.5",
    "3-5-haiku",
    "3.5-haiku",
    "gemini-3-flash",
    "gemini-2.5-flash",
    "gpt-5-nano",
    "gpt-5-mini",
];

impl Provider {
    /// The default model: a preferred one, then one called `latest`, then the highest id. Models without text
    /// output or tools are considered only if there are no others.
    pub fn default_model(&self) -> Option<&Model> {
        let useful = |model: &&Model| model.abilities.tools && model.abilities.output.text;
        let best = |models: &mut dyn Iterator<Item = &'_ Model>| -> Option<String> {
            models.max_by(|one, other| rank(one).cmp(&rank(other))).map(|model| model.id.clone())
        };
        let id = best(&mut self.offered().filter(useful)).or_else(|| best(&mut self.offered()))?;
        self.models.get(&id)
    }

    /// A small model for titles and other side calls, if a suitable one is known.
    pub fn small_model(&self) -> Option<&Model> {
        SMALL.iter().find_map(|name| self.offered().find(|model| model.id.contains(name)))
    }
}

/// Sort key; greater is better.
fn rank(model: &Model) -> (Option<usize>, bool, &str) {
    let favourite = FAVOURITES.iter().position(|name| model.id.contains(name));
    (favourite, model.id.contains("latest"), &model.id)
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn provider(ids: &[&str]) -> Provider {
        let models = ids.iter().map(|id| ((*id).to_owned(), Model::named(id))).collect();
        Provider { models, ..Provider::named("acme") }
    }

    fn default(provider: &Provider) -> Option<&str> {
        provider.default_model().map(|model| model.id.as_str())
    }

    #[test]
    fn favourites_come_first_then_latest_then_the_highest_id() {
        assert_eq!(default(&provider(&["gpt-5", "claude-sonnet-4-5", "zeta"])), Some("claude-sonnet-4-5"));
        assert_eq!(default(&provider(&["gpt-5.1", "gpt-5.2"])), Some("gpt-5.2"));
        assert_eq!(default(&provider(&["gpt-5.2-chat-latest", "gpt-5.6"])), Some("gpt-5.2-chat-latest"));
        assert_eq!(default(&provider(&["alpha", "beta-latest", "zeta"])), Some("beta-latest"));
        assert_eq!(default(&provider(&["alpha", "zeta"])), Some("zeta"));
        assert_eq!(default(&provider(&[])), None);
    }

    #[test]
    fn deprecated_models_and_models_without_tools_are_not_chosen() {
        let mut acme = provider(&["alpha", "beta", "zeta"]);
        acme.models.get_mut("zeta").unwrap().status = Status::Deprecated;
        acme.models.get_mut("beta").unwrap().abilities.tools = false;
        assert_eq!(default(&acme), Some("alpha"));
        acme.models.get_mut("alpha").unwrap().abilities.tools = false;
        assert_eq!(default(&acme), Some("beta"), "the only one left");
    }

    #[test]
    fn small_models_are_found_by_name() {
        let acme = provider(&["gpt-5-nano", "claude-haiku-4-5-20251001", "claude-opus-5"]);
        assert_eq!(acme.small_model().map(|model| model.id.as_str()), Some("claude-haiku-4-5-20251001"));
        assert_eq!(provider(&["claude-opus-5"]).small_model(), None);
    }
}
