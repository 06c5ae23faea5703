//! Converts configured permissions to rules.
//!
//! The rules have the order of the file, and the last matching rule wins. So a general entry belongs before a
//! special one: `{ "bash": { "*": "ask", "git *": "allow" } }`. As in OpenCode, merging keeps the place of an
//! existing key.

use std::path::Path;

use protocol::{
    config::{Permission, PermissionRule},
    request::{Action, Rule},
};

/// Tools whose old switches control the permission to edit.
const EDITORS: [&str; 4] = ["write", "edit", "patch", "multiedit"];

/// The permission to change files.
const EDIT: &str = "edit";

/// The rules of a configuration's `permission`. Patterns may begin with `~/` or `$HOME`.
pub fn rules(permission: &Permission, home: Option<&Path>) -> Vec<Rule> {
    let entries = match permission {
        Permission::Everything(action) => return vec![Rule::new("*", "*", *action)],
        Permission::Each(entries) => entries,
    };
    let mut rules = Vec::new();
    for (name, rule) in entries.iter() {
        match rule {
            PermissionRule::Always(action) => rules.push(Rule::new(name, "*", *action)),
            PermissionRule::ByPattern(patterns) => {
                rules.extend(
                    patterns
                        .iter()
                        .map(|(pattern, action)| Rule::new(name, expanded(pattern, home), *action)),
                );
            }
        }
    }
    rules
}

/// The permission that an old switch of a tool controls.
pub(super) fn permission_of(tool: &str) -> &str {
    if EDITORS.contains(&tool) { EDIT } else { tool }
}

/// The action of an old switch.
pub(super) fn switched(on: bool) -> Action {
    if on { Action::Allow } else { Action::Deny }
}

fn expanded(pattern: &str, home: Option<&Path>) -> String {
    let Some(home) = home.map(|home| home.to_string_lossy()) else { return pattern.to_owned() };
    if pattern == "~" {
        return home.into_owned();
    }
    if let Some(rest) = pattern.strip_prefix("$HOME") {
        return format!("{home}{rest}");
    }
    match pattern.strip_prefix("~/") {
        Some(rest) => format!("{home}/{rest}"),
        None => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn shown(rules: &[Rule]) -> Vec<String> {
        rules.iter().map(|rule| format!("{} {} {:?}", rule.permission, rule.pattern, rule.action)).collect()
    }

    #[test]
    fn the_order_of_a_file_is_the_order_of_the_rules() {
        let permission: Permission = from_value(json!({
            "bash": { "git push *": "ask", "*": "deny" },
            "*": "allow",
            "edit": "deny",
            "external_directory": { "~/notes/*": "allow", "$HOME/x": "ask", "~": "deny", "~x": "deny" },
        }))
        .unwrap();
        assert_eq!(
            shown(&rules(&permission, Some(Path::new("/h")))),
            [
                "bash git push * Ask",
                "bash * Deny",
                "* * Allow",
                "edit * Deny",
                "external_directory /h/notes/* Allow",
                "external_directory /h/x Ask",
                "external_directory /h Deny",
                "external_directory ~x Deny",
            ]
        );
    }

    #[test]
    fn one_word_is_a_rule_for_everything() {
        assert_eq!(shown(&rules(&Permission::Everything(Action::Ask), None)), ["* * Ask"]);
    }
}
