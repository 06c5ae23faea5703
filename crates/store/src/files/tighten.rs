//! Keys with which a project can tighten the user's settings, and never loosen them.
//!
//! A project's files may come with a clone, and an agent that works in the project may write them. So these keys
//! are left out of the ordinary merge and compared with the result of all other layers:
//!
//! - `sandbox`: the stricter mode counts, and the network is off if either side switches it off
//! - `webfetch.private_addresses`: a project can only set `false`
//! - `limits.request_reply`: a project can only set `reject`; any other reply would answer in the user's place
//! - `permission_final`: no project can set it; a final rule that allows would override the user's own rules
//!
//! Every value that has no effect becomes a warning with its file and key.

use protocol::config::{Sandbox, SandboxConfig, SandboxMode, Webfetch};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    document::Node,
    merge::merge_value,
    problem::{Position, Problem, Source},
};

const SANDBOX: &str = "sandbox";
const WEBFETCH: &str = "webfetch";
const FINAL: &str = "permission_final";
const LIMITS: &str = "limits";
const REPLY: &str = "request_reply";

/// The reply that allows nothing.
const REJECT: &str = "reject";

/// A project's value for one of the keys.
#[derive(Debug)]
pub(super) struct Claim {
    key: &'static str,
    value: Value,
    source: Source,
    at: Position,
}

/// Collects the claims of a project's file.
pub(super) fn claims(document: &Node, source: &Source) -> Vec<Claim> {
    let claim = |key: &'static str| {
        let entry = document.entry(key)?;
        Some(Claim { key, value: entry.value.clone().into_value(), source: source.clone(), at: entry.at })
    };
    let reply = || {
        let entry = document.entry(LIMITS)?.value.entry(REPLY)?;
        Some(Claim {
            key: REPLY,
            value: entry.value.clone().into_value(),
            source: source.clone(),
            at: entry.at,
        })
    };
    [SANDBOX, WEBFETCH, FINAL].into_iter().filter_map(claim).chain(reply()).collect()
}

/// Removes the keys from a project's layer.
pub(super) fn remove(layer: &mut Map<String, Value>) {
    for key in [SANDBOX, WEBFETCH, FINAL] {
        layer.remove(key);
    }
    if let Some(Value::Object(limits)) = layer.get_mut(LIMITS) {
        limits.remove(REPLY);
    }
}

/// Tightens the merged configuration, and returns a warning for each claim that would loosen it.
pub(super) fn apply(merged: &mut Map<String, Value>, claims: &[Claim]) -> Vec<Problem> {
    let user_sandbox = read::<Sandbox>(merged.get(SANDBOX));
    let user_webfetch = read::<Webfetch>(merged.get(WEBFETCH));
    let user_reply = merged.get(LIMITS).and_then(|limits| limits.get(REPLY)).cloned();
    let mut ignored = Vec::new();
    for claim in claims {
        match claim.key {
            SANDBOX => ignored.extend(looser_sandbox(user_sandbox, claim)),
            WEBFETCH => ignored.extend(looser_webfetch(user_webfetch, claim)),
            REPLY if claim.value == REJECT || Some(&claim.value) == user_reply.as_ref() => {}
            REPLY => ignored.push(claim.ignored(
                "limits.request_reply",
                "can only be `reject` in a project's file, so it has no effect here",
            )),
            _ => ignored.push(claim.ignored(
                FINAL,
                "counts in the user's and the administrator's files only, so it has no effect here",
            )),
        }
    }
    if let Some(wanted) = together(claims, SANDBOX) {
        tighten_sandbox(merged, user_sandbox, wanted);
    }
    let wanted = together(claims, WEBFETCH).and_then(|wanted| read::<Webfetch>(Some(&wanted)));
    if wanted.is_some_and(|wanted| wanted.private_addresses == Some(false)) {
        let webfetch = merged.entry(WEBFETCH).or_insert_with(|| json!({}));
        merge_value(webfetch, json!({ "private_addresses": false }));
    }
    if together(claims, REPLY).is_some_and(|reply| reply == REJECT) {
        merge_value(merged.entry(LIMITS).or_insert_with(|| json!({})), json!({ REPLY: REJECT }));
    }
    ignored
}

impl Claim {
    fn ignored(&self, key: &str, why: &str) -> Problem {
        let problem = Problem::about(&self.source, Some(self.at), format!("`{key}` {why}"));
        Problem { key: key.to_owned(), ..problem }
    }

    fn looser(&self, key: &str) -> Problem {
        self.ignored(key, "would loosen your setting for all projects, so it has no effect here")
    }
}

fn read<'v, T: Deserialize<'v>>(value: Option<&'v Value>) -> Option<T> {
    // Every layer has already been checked against the schema.
    value.and_then(|value| T::deserialize(value).ok())
}

/// The claims about a key, merged like layers.
fn together(claims: &[Claim], key: &str) -> Option<Value> {
    let mut values = claims.iter().filter(|claim| claim.key == key).map(|claim| claim.value.clone());
    let mut merged = values.next()?;
    values.for_each(|value| merge_value(&mut merged, value));
    Some(merged)
}

fn strictness(mode: SandboxMode) -> u8 {
    match mode {
        SandboxMode::Off => 0,
        SandboxMode::WorkspaceWrite => 1,
        SandboxMode::ReadOnly => 2,
    }
}

/// Returns true if a value explicitly allows the network.
fn opens_network(sandbox: Sandbox) -> bool {
    matches!(sandbox, Sandbox::Full(SandboxConfig { network: Some(true), .. }))
}

fn looser_sandbox(user: Option<Sandbox>, claim: &Claim) -> Vec<Problem> {
    let (Some(user), Some(wanted)) = (user, read::<Sandbox>(Some(&claim.value))) else { return Vec::new() };
    let mode = strictness(wanted.mode()) < strictness(user.mode());
    let network = !user.network() && opens_network(wanted);
    let problems = [(mode, "sandbox.mode"), (network, "sandbox.network")];
    problems.into_iter().filter(|(looser, _)| *looser).map(|(_, key)| claim.looser(key)).collect()
}

fn tighten_sandbox(merged: &mut Map<String, Value>, user: Option<Sandbox>, wanted: Value) {
    let Some(user) = user else {
        merged.insert(SANDBOX.to_owned(), wanted);
        return;
    };
    let Some(wanted) = read::<Sandbox>(Some(&wanted)) else { return };
    let modes = [user.mode(), wanted.mode()];
    let mode = modes.into_iter().max_by_key(|mode| strictness(*mode)).unwrap_or(SandboxMode::ReadOnly);
    let network = user.network() && wanted.network();
    if (mode, network) != (user.mode(), user.network()) {
        let tightened = SandboxConfig { mode, network: Some(network) };
        merged.insert(SANDBOX.to_owned(), json!(tightened));
    }
}

fn looser_webfetch(user: Option<Webfetch>, claim: &Claim) -> Option<Problem> {
    let wanted: Webfetch = read(Some(&claim.value))?;
    let allowed = user.and_then(|user| user.private_addresses) == Some(true);
    let looser = wanted.private_addresses == Some(true) && !allowed;
    let why = "can only be `false` in a project's file, so it has no effect here";
    looser.then(|| claim.ignored("webfetch.private_addresses", why))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn claim(key: &'static str, value: &Value) -> Claim {
        let source = Source::File(Path::new("/p/baton.json").to_owned());
        Claim { key, value: value.clone(), source, at: Position { line: 1, column: 3 } }
    }

    /// The result for a user's value and a project's values, and the keys that had no effect.
    fn tightened(key: &'static str, user: Option<Value>, project: &[Value]) -> (Value, Vec<String>) {
        let mut merged: Map<String, Value> = user.map(|value| (key.to_owned(), value)).into_iter().collect();
        let claims: Vec<Claim> = project.iter().map(|value| claim(key, value)).collect();
        let ignored = apply(&mut merged, &claims).into_iter().map(|problem| problem.key).collect();
        (merged.remove(key).unwrap_or_default(), ignored)
    }

    #[test]
    fn a_project_makes_a_sandbox_stricter_and_never_looser() {
        let full = |mode: &str, network: bool| json!({ "mode": mode, "network": network });
        let cases = [
            (None, json!("workspace-write"), json!("workspace-write"), vec![]),
            (None, json!("off"), json!("off"), vec![]),
            (Some(json!("off")), json!("read-only"), full("read-only", true), vec![]),
            (Some(json!("workspace-write")), json!("off"), json!("workspace-write"), vec!["sandbox.mode"]),
            (Some(json!("read-only")), json!("workspace-write"), json!("read-only"), vec!["sandbox.mode"]),
            (
                Some(full("workspace-write", false)),
                full("read-only", true),
                full("read-only", false),
                vec!["sandbox.network"],
            ),
            (Some(full("workspace-write", false)), json!("read-only"), full("read-only", false), vec![]),
            (
                Some(json!("workspace-write")),
                full("off", false),
                full("workspace-write", false),
                vec!["sandbox.mode"],
            ),
        ];
        for (user, project, expected, ignored) in cases {
            let ignored: Vec<String> = ignored.into_iter().map(str::to_owned).collect();
            let outcome = tightened(SANDBOX, user.clone(), std::slice::from_ref(&project));
            assert_eq!(outcome, (expected, ignored), "{user:?} {project}");
        }
    }

    #[test]
    fn among_a_projects_own_files_the_last_one_counts() {
        let project = [json!("read-only"), json!("workspace-write")];
        assert_eq!(tightened(SANDBOX, None, &project), (json!("workspace-write"), vec![]));
        let outcome = tightened(SANDBOX, Some(json!("workspace-write")), &project);
        assert_eq!(outcome, (json!("workspace-write"), vec![]));
    }

    #[test]
    fn a_project_cannot_open_private_addresses() {
        let says = |value: bool| json!({ "private_addresses": value });
        let key = "webfetch.private_addresses".to_owned();
        assert_eq!(tightened(WEBFETCH, None, &[says(true)]), (Value::Null, vec![key.clone()]));
        assert_eq!(tightened(WEBFETCH, Some(says(false)), &[says(true)]), (says(false), vec![key]));
        assert_eq!(tightened(WEBFETCH, Some(says(true)), &[says(true)]), (says(true), vec![]));
        assert_eq!(tightened(WEBFETCH, Some(says(true)), &[says(false)]), (says(false), vec![]));
    }

    #[test]
    fn a_project_cannot_answer_requests_to_the_user() {
        let replied = |user: Value, project: &str| {
            let mut merged = Map::from_iter([(LIMITS.to_owned(), user)]);
            let ignored = apply(&mut merged, &[claim(REPLY, &json!(project))]).len();
            (merged.remove(LIMITS).unwrap(), ignored)
        };
        assert_eq!(replied(json!({ "retries": 2 }), "always"), (json!({ "retries": 2 }), 1));
        assert_eq!(replied(json!({}), "reject"), (json!({ "request_reply": "reject" }), 0));
        assert_eq!(
            replied(json!({ "request_reply": "once" }), "once"),
            (json!({ "request_reply": "once" }), 0)
        );
        let tightened = (json!({ "request_reply": "reject" }), 0);
        assert_eq!(replied(json!({ "request_reply": "once" }), "reject"), tightened);
    }

    #[test]
    fn a_project_has_no_final_rules() {
        let outcome = tightened(FINAL, Some(json!({ "bash": "ask" })), &[json!({ "bash": "allow" })]);
        assert_eq!(outcome, (json!({ "bash": "ask" }), vec![FINAL.to_owned()]));
    }
}
