//! Withholds the parts of a project's layers that need trust.

use std::{collections::BTreeSet, path::Path};

use protocol::trust::{Withheld, WithheldKind, WithheldReason};
use serde_json::{Map, Value};

use super::{Loader, Site};
use crate::files::{
    Environment, TrustPolicy, entries, plugin, schema,
    withhold::{self, Part},
};

impl Loader<'_> {
    /// Removes commands with shell lines, and agents' rules that allow something, from a project's entries unless
    /// their files are trusted.
    pub(super) fn hold_back_entries(&mut self, entries: &mut entries::Entries) {
        for ((key, name), file) in &entries.origins {
            let Some(reason) = self.refusal(file) else { continue };
            let Some(Value::Object(all)) = entries.config.get_mut(key) else { continue };
            let path = schema::joined(key, name);
            if key == "command" && all.get(name).is_some_and(withhold::has_shell_lines) {
                all.remove(name);
                self.hold_back(file, reason, Part { key: path, kind: WithheldKind::Command });
            } else if let Some(Value::Object(entry)) = all.get_mut(name) {
                for part in withhold::rules::tighten(entry, &path) {
                    self.hold_back(file, reason, part);
                }
            }
        }
    }

    /// The reason why parts of a file that need trust do not count; `None` if they count, as in all files of the
    /// user.
    pub(super) fn refusal(&self, path: &Path) -> Option<WithheldReason> {
        self.in_project.then(|| self.guard.refusal(path)).flatten()
    }

    pub(super) fn hold_back(&mut self, file: &Path, reason: WithheldReason, part: Part) {
        let file = file.to_string_lossy().into_owned();
        self.loaded.withheld.push(Withheld { file, key: part.key, kind: part.kind, reason });
    }

    /// Removes everything from a layer that needs trust. `held` are the keys of values with placeholders.
    pub(super) fn split(
        &mut self,
        layer: &mut Map<String, Value>,
        held: Vec<String>,
        file: &Path,
        reason: WithheldReason,
    ) {
        let own = self.own_providers.get_or_init(|| own_providers(self.environment, self.site, self.guard));
        let mut parts = withhold::withhold(layer, &held, self.guard, own);
        withhold::complete(layer, &held);
        let is_listed = |key: &String| parts.iter().any(|part| withhold::is_within(key, &part.key));
        let held: Vec<String> = held.into_iter().filter(|key| !is_listed(key)).collect();
        parts.extend(held.into_iter().map(|key| Part { key, kind: WithheldKind::Placeholder }));
        for part in parts {
            self.hold_back(file, reason, part);
        }
    }

    /// Removes plugins from a trusted layer if the plugins' own files are not trusted.
    pub(super) fn hold_back_plugins(&mut self, layer: &mut Map<String, Value>) {
        let Some(Value::Array(plugins)) = layer.get_mut("plugin") else { return };
        plugins.retain(|entry| {
            let Some(path) = plugin::file(entry) else { return true };
            let Some(reason) = self.refusal(&path) else { return true };
            let key = format!("plugin: {}", path.display());
            self.hold_back(&path, reason, Part { key, kind: WithheldKind::Plugin });
            false
        });
    }
}

/// The providers that the user's own layers configure, including layers that come after the project's. Errors in
/// these layers are reported when they are read together with the project's.
fn own_providers(environment: &Environment, site: &Site, guard: &TrustPolicy) -> BTreeSet<String> {
    let mut loader = Loader::new(environment, site, guard, None);
    loader.skips_project = true;
    loader.layers();
    let providers = loader.merged.get("provider").and_then(Value::as_object);
    providers.map(|providers| providers.keys().cloned().collect()).unwrap_or_default()
}
