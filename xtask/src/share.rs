//! Counts OpenCode's operations that Baton supports, for a sentence in `docs/compatibility.md`.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::openapi::DOCUMENT;
use crate::repo::Repo;

const CONTRACT: &str = "crates/server/tests/fixtures/opencode-contract.json";
const PAGE: &str = "docs/compatibility.md";
/// The beginning of the sentence, which is alone on its line.
const OPENING: &str = "Of OpenCode's ";

pub(crate) fn print(repo: &Repo) -> Result<()> {
    println!("{}", sentence(repo)?);
    Ok(())
}

/// Replaces the sentence in the page.
pub(crate) fn write(repo: &Repo) -> Result<()> {
    let (path, sentence) = (repo.root().join(PAGE), sentence(repo)?);
    let page = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let page = replaced(&page, &sentence).with_context(|| format!("{PAGE} has no line {OPENING:?}"))?;
    std::fs::write(&path, page).with_context(|| format!("cannot write {PAGE}"))
}

/// Fails if the page has a different sentence.
pub(crate) fn check(repo: &Repo) -> Result<()> {
    let sentence = sentence(repo)?;
    let page = std::fs::read_to_string(repo.root().join(PAGE))?;
    if page.lines().any(|line| line == sentence) {
        return Ok(());
    }
    bail!("{PAGE} does not say {sentence:?}; run `cargo xtask openapi` and commit the result")
}

fn sentence(repo: &Repo) -> Result<String> {
    let read = |name: &str| -> Result<Value> {
        let text =
            std::fs::read_to_string(repo.root().join(name)).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_str(&text).with_context(|| format!("{name} is not JSON"))
    };
    let (theirs, ours) = (theirs(&read(CONTRACT)?), ours(&read(DOCUMENT)?));
    let shared = theirs.intersection(&ours).count();
    Ok(format!("{OPENING}{} operations Baton answers {shared}.", theirs.len()))
}

/// Method and path of every operation of the contract.
fn theirs(contract: &Value) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let operations = contract.get("operations").and_then(Value::as_array).into_iter().flatten();
    operations
        .map(|it| {
            (it.get("method").map(text).unwrap_or_default(), it.get("path").map(text).unwrap_or_default())
        })
        .collect()
}

/// Method and path of every operation of the document, without those that only answer 501.
fn ours(document: &Value) -> BTreeSet<(String, String)> {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (method, path, operation))
    });
    operations
        .filter(|(_, _, operation)| operation.pointer("/responses/501").is_none())
        .map(|(method, path, _)| (method.clone(), path.clone()))
        .collect()
}

/// The page with its sentence replaced; `None` if it has none.
fn replaced(page: &str, sentence: &str) -> Option<String> {
    let old = page.lines().find(|line| line.starts_with(OPENING))?;
    Some(page.replacen(old, sentence, 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_that_answer_501_do_not_count() {
        let document = json!({ "paths": { "/a": {
            "get": { "responses": { "200": {} } },
            "post": { "responses": { "501": {} } },
        } } });
        let contract = json!({ "operations": [
            { "method": "get", "path": "/a" },
            { "method": "post", "path": "/a" },
            { "method": "get", "path": "/b" },
        ] });
        let both: Vec<_> = theirs(&contract).intersection(&ours(&document)).cloned().collect();
        assert_eq!(both, [("get".to_owned(), "/a".to_owned())]);
    }

    #[test]
    fn one_line_of_the_page_is_replaced() {
        let page = "# Page\n\nOf OpenCode's 3 operations Baton answers 1.\n\nMore.\n";
        let replaced = replaced(page, "Of OpenCode's 3 operations Baton answers 2.").unwrap();
        assert_eq!(replaced, page.replace('1', "2"));
        assert_eq!(super::replaced("# Page\n", "x"), None);
    }
}
