//! Dependencies that a crate declares and never names.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Finding, extension, words};
use crate::repo::TextFile;

/// Dependencies that work without being named in a source file.
const UNNAMED: &[&str] = &[];

/// Reports each dependency whose name occurs in no source file of its crate.
pub(super) fn check(metadata: &Value, files: &[TextFile]) -> Result<Vec<Finding>> {
    let root = metadata.get("workspace_root").and_then(Value::as_str).context("no workspace root")?;
    let packages = metadata.get("packages").and_then(Value::as_array).context("no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        let manifest = package.get("manifest_path").and_then(Value::as_str).context("no manifest path")?;
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let folder = manifest.trim_end_matches("Cargo.toml");
        let sources: Vec<_> = files
            .iter()
            .filter(|file| file.path.starts_with(folder) && extension(&file.path) == "rs")
            .collect();
        let dependencies = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        for name in dependencies.filter_map(name).filter(|name| !UNNAMED.contains(&name.as_str())) {
            if !sources.iter().any(|file| words(&file.text).any(|word| word == name)) {
                findings.push(Finding::in_file(
                    manifest,
                    format!("`{name}` is a dependency that no source names"),
                ));
            }
        }
    }
    Ok(findings)
}

/// The name of a dependency as sources write it.
fn name(dependency: &Value) -> Option<String> {
    let renamed = dependency.get("rename").and_then(Value::as_str);
    let name = renamed.or_else(|| dependency.get("name").and_then(Value::as_str))?;
    Some(name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dependency_that_no_source_names_is_reported() {
        let metadata = json!({
            "workspace_root": "/repo",
            "packages": [{
                "manifest_path": "/repo/crates/a/Cargo.toml",
                "dependencies": [
                    { "name": "serde-json" },
                    { "name": "long-name", "rename": "short" },
                    { "name": "forgotten" },
                ],
            }],
        });
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/src/lib.rs", "use serde_json::Value;\nuse short::Thing;\n"),
            file("crates/b/src/lib.rs", "use forgotten::Thing;\n"),
        ];
        let findings: Vec<_> = check(&metadata, &files).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(findings, ["crates/a/Cargo.toml: `forgotten` is a dependency that no source names"]);
    }
}
