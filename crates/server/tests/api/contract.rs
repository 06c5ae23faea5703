//! Compares our document with OpenCode's: everything its clients rely on is there, under the same name. The
//! fixture has all of OpenCode's operations; those that Baton also has must be the same, and the table of
//! `document.rs` lists them. `cargo xtask openapi --share` counts them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{document::operations, schema::Schemas};

/// Paths that Baton has and OpenCode does not.
const ADDITIONS: &[&str] = &[
    "/doc",
    "/metrics",
    "/session/{sessionID}/turn",
    "/session/{sessionID}/continuation",
    "/find/message",
    "/session/{sessionID}/family",
    "/session/{sessionID}/seen",
    "/session/{sessionID}/queue",
    "/session/{sessionID}/queue/{messageID}",
    "/trust",
    "/channel",
    "/config/diagnostics",
    "/web/me",
    "/web/login",
    "/web/logout",
    "/web/session",
    "/web/session/{browserID}",
    "/baton/ready",
    "/baton/nodes",
    "/baton/workspaces",
    "/baton/nodes/{name}/drain",
    "/baton/nodes/{name}/resume",
];

fn contract() -> Vec<Value> {
    let contract: Value = serde_json::from_str(include_str!("../fixtures/opencode-contract.json")).unwrap();
    contract["operations"].as_array().unwrap().clone()
}

fn words(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap()).collect()
}

/// The fields of an object schema and the required ones among them, through all its alternatives.
fn fields<'a>(schemas: &Schemas<'a>, schema: &'a Value) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let (mut names, mut required) = match schema.get("$ref") {
        Some(reference) => fields(schemas, schemas.follow(reference)),
        None => Default::default(),
    };
    let own = schema["properties"].as_object().into_iter();
    names.extend(own.flat_map(|fields| fields.keys().map(String::as_str)));
    required.extend(words(&schema["required"]));
    for word in ["anyOf", "oneOf", "allOf"] {
        let options: Vec<_> = schema[word].as_array().into_iter().flatten().collect();
        let found: Vec<_> = options.iter().map(|option| fields(schemas, option)).collect();
        names.extend(found.iter().flat_map(|(names, _)| names.iter().copied()));
        let common = found.iter().map(|(_, required)| required.clone()).reduce(|a, b| {
            if word == "allOf" {
                a.union(&b).copied().collect()
            } else {
                a.intersection(&b).copied().collect()
            }
        });
        required.extend(common.unwrap_or_default());
    }
    (names, required)
}

#[test]
fn every_operation_is_opencodes() {
    let document = server::openapi::document();
    let schemas = Schemas::of(&document);
    for theirs in contract() {
        let (method, path) = (theirs["method"].as_str().unwrap(), theirs["path"].as_str().unwrap());
        let Some(ours) = document["paths"].get(path).and_then(|methods| methods.get(method)) else {
            continue;
        };
        assert_eq!(ours["operationId"], theirs["operationId"], "{method} {path}");
        if ours["responses"].get("501").is_some() {
            continue;
        }

        let parameters = ours["parameters"].as_array().into_iter().flatten();
        let query: BTreeSet<&str> =
            parameters.filter(|it| it["in"] == "query").map(|it| it["name"].as_str().unwrap()).collect();
        let missing: Vec<_> = words(&theirs["query"]).difference(&query).copied().collect();
        assert!(missing.is_empty(), "{method} {path} does not take {missing:?}");

        let success = theirs["success"].to_string();
        let answer = ours["responses"].get(&success);
        let answer = answer.unwrap_or_else(|| panic!("{method} {path} never answers {success}"));
        let kind = theirs["answer"].as_str().unwrap();
        assert!(kind.is_empty() || answer["content"].get(kind).is_some(), "{method} {path} gives no {kind}");
        if let Some(given) = theirs.get("gives") {
            let schema = schemas.resolve(&answer["content"][kind]["schema"]);
            let item = schema.get("items").unwrap_or(schema);
            let (_, required) = fields(&schemas, item);
            let missing: Vec<_> = words(given).difference(&required).copied().collect();
            assert!(missing.is_empty(), "{method} {path} may answer without {missing:?}");
        }

        if let Some(body) = theirs.get("body") {
            let schema = &ours["requestBody"]["content"]["application/json"]["schema"];
            let (names, required) = fields(&schemas, schema);
            let more: Vec<_> = required.difference(&words(&body["required"])).copied().collect();
            let less: Vec<_> = words(&body["required"]).difference(&required).copied().collect();
            assert!(
                more.is_empty() && less.is_empty(),
                "{method} {path}: required {more:?} more, {less:?} less"
            );
            let missing: Vec<_> = words(&body["fields"]).difference(&names).copied().collect();
            assert!(missing.is_empty(), "{method} {path} ignores {missing:?}");
        }
    }
}

#[test]
fn every_other_operation_is_a_listed_addition() {
    let contract = contract();
    for (method, path, _) in operations(&server::openapi::document()) {
        let known =
            contract.iter().any(|theirs| theirs["path"] == path && theirs["method"] == method.to_lowercase());
        assert!(known || ADDITIONS.contains(&path.as_str()), "OpenCode has no {method} {path}");
    }
}
