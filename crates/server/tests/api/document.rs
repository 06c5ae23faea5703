//! The OpenAPI document describes exactly what is served and is consistent in itself.

use std::{collections::BTreeSet, fmt::Write};

use serde_json::Value;

use crate::{harness::Harness, schema::Schemas};

/// Every operation of the document: method, path and description.
pub(crate) fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = |(path, methods): (&'_ String, &'_ Value)| -> Vec<(String, String)> {
        methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())).collect()
    };
    let list: Vec<(String, String)> = paths.iter().flat_map(operations).collect();
    list.into_iter()
        .map(|(method, path)| {
            let operation = &document["paths"][&path][method.to_lowercase()];
            (method, path, operation)
        })
        .collect()
}

#[test]
fn the_table_is_as_reviewed() {
    let document = server::openapi::document();
    let mut table = String::new();
    for (method, path, operation) in operations(&document) {
        let statuses: Vec<_> = operation["responses"].as_object().unwrap().keys().cloned().collect();
        let id = operation["operationId"].as_str().unwrap();
        writeln!(table, "{method:6} {path}  {id}  {}", statuses.join(" ")).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn operation_ids_are_unique_and_summaries_are_there() {
    let document = server::openapi::document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut seen = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(seen.insert(id.to_owned()), "{id} twice");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{method} {path} has no summary");
    }
}

#[test]
fn every_path_names_its_parameters() {
    let document = server::openapi::document();
    for (method, path, operation) in operations(&document) {
        let named: Vec<&str> =
            path.split('/').filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}')).collect();
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described: Vec<&str> = parameters
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(named, described, "{method} {path}");
    }
}

#[test]
fn every_reference_resolves() {
    fn follow(schemas: &Schemas<'_>, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref") {
                    let name = reference.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
                    assert!(schemas.0.contains_key(name), "{reference}");
                }
                fields.values().for_each(|value| follow(schemas, value));
            }
            Value::Array(items) => items.iter().for_each(|value| follow(schemas, value)),
            _ => {}
        }
    }
    let document = server::openapi::document();
    follow(&Schemas::of(&document), &document);
}

#[test]
fn the_page_about_compatibility_lists_missing_operations() {
    let page = include_str!("../../../../docs/compatibility.md");
    let document = server::openapi::document();
    for (method, path, operation) in operations(&document) {
        let listed = page.contains(&format!("`{method} {path}`"));
        assert!(operation["responses"].get("501").is_none() || listed, "{method} {path} is not listed");
    }
}

#[tokio::test]
async fn the_served_document_is_the_one_of_the_table() {
    let harness = Harness::new();
    assert_eq!(harness.get("/doc").await, server::openapi::document());
}

#[tokio::test]
async fn everything_documented_is_served() {
    let harness = Harness::new();
    let _busybody = harness.busybody();
    for (method, path, _) in operations(&server::openapi::document()) {
        let path =
            path.replace("{sessionID}", "ses_1").replace("{messageID}", "msg_1").replace("{partID}", "prt_1");
        let path = path.replace("{permissionID}", "per_1").replace("{id}", "psv_1");
        let request = if path.starts_with("/question") { "que_1" } else { "per_1" };
        let answer = harness.call(&method, &path.replace("{requestID}", request), None).await;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert!(answer.status != 405 && !text.contains("There is nothing at"), "{method} {path}: {text}");
    }
}
