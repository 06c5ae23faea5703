//! The allowed dependencies between rooms, as a table.
//!
//! ARCHITECTURE.md explains the table; the two are changed in the same commit. A crate that is not listed fails, so
//! a new room is designed before it is built.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;

/// The dependencies that one crate may have on other crates of the workspace.
struct Room {
    name: &'static str,
    /// Allowed in every kind of dependency.
    uses: &'static [&'static str],
    /// Additionally allowed in tests.
    tests_use: &'static [&'static str],
}

/// Development only: any room's tests may use it, nothing that ships may.
const TESTKIT: &str = "testkit";

const ROOMS: &[Room] = &[
    Room { name: "net", uses: &[], tests_use: &[] },
    Room { name: "jsonrpc", uses: &[], tests_use: &[] },
    Room { name: "protocol", uses: &[], tests_use: &[] },
    Room { name: "engine", uses: &["protocol"], tests_use: &[] },
    Room { name: "store", uses: &["engine", "net", "protocol"], tests_use: &[] },
    Room { name: "llm", uses: &["net"], tests_use: &[] },
    Room { name: "workspace", uses: &[], tests_use: &[] },
    Room { name: "web", uses: &[], tests_use: &[] },
    Room { name: "supervision", uses: &["engine", "net", "protocol", "workspace"], tests_use: &[] },
    Room {
        name: "native",
        uses: &["engine", "llm", "net", "protocol", "supervision", "workspace"],
        tests_use: &[],
    },
    Room {
        name: "drivers",
        uses: &["client", "engine", "jsonrpc", "net", "protocol", "supervision", "workspace"],
        tests_use: &[],
    },
    Room { name: "plugins", uses: &["engine", "jsonrpc", "net", "protocol", "workspace"], tests_use: &[] },
    Room { name: "server", uses: &["engine", "protocol", "web", "workspace"], tests_use: &["store"] },
    Room { name: "client", uses: &["net", "protocol"], tests_use: &[] },
    Room { name: "channels", uses: &["client", "net", "protocol"], tests_use: &[] },
    Room {
        name: "project",
        uses: &[
            "client",
            "drivers",
            "engine",
            "llm",
            "native",
            "plugins",
            "protocol",
            "server",
            "store",
            "supervision",
            "workspace",
        ],
        tests_use: &[],
    },
    Room {
        name: "cli",
        uses: &[
            "channels",
            "client",
            "drivers",
            "engine",
            "llm",
            "net",
            "plugins",
            "project",
            "protocol",
            "server",
            "store",
            "workspace",
        ],
        tests_use: &[],
    },
    Room {
        name: TESTKIT,
        uses: &["client", "engine", "llm", "net", "protocol", "server", "store"],
        tests_use: &[],
    },
    Room { name: "xtask", uses: &[], tests_use: &[] },
];

/// Every room and the client use the protocol, so they all inherit its dependencies.
const PROTOCOL_USES: &[&str] = &["schemars", "serde", "serde_json", "serde_with_macros", "thiserror"];

/// A workspace crate as `cargo metadata` describes it.
#[derive(Debug)]
struct Package {
    name: String,
    manifest: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug)]
struct Dependency {
    name: String,
    /// True if it has a path: a crate of this workspace, and not a published one with the same name.
    local: bool,
    dev: bool,
}

pub(super) fn check(metadata: &Value) -> Result<Vec<Finding>> {
    let packages = packages(metadata).context("cannot parse the output of `cargo metadata`")?;
    Ok(packages.iter().flat_map(check_package).collect())
}

fn check_package(package: &Package) -> Vec<Finding> {
    let Some(room) = ROOMS.iter().find(|room| room.name == package.name) else {
        let message = format!(
            "crate `{}` is not in the table of rooms: draw it in ARCHITECTURE.md and list it there",
            package.name
        );
        return vec![Finding::in_file(&package.manifest, message)];
    };
    package
        .dependencies
        .iter()
        .filter_map(|dependency| objection(room, dependency))
        .map(|message| Finding::in_file(&package.manifest, message))
        .collect()
}

/// The reason why a dependency is not allowed; `None` if it is.
fn objection(room: &Room, dependency: &Dependency) -> Option<String> {
    let to = dependency.name.as_str();
    if !dependency.local {
        let foreign = room.name == "protocol" && !dependency.dev && !PROTOCOL_USES.contains(&to);
        return foreign.then(|| {
            format!("`protocol` must not depend on `{to}` (allowed: {})", PROTOCOL_USES.join(", "))
        });
    }
    if to == TESTKIT {
        return (!dependency.dev)
            .then(|| format!("`{}` must not ship with `{TESTKIT}`: only a dev-dependency may", room.name));
    }
    let allowed = room.uses.contains(&to) || (dependency.dev && room.tests_use.contains(&to));
    (!allowed).then(|| {
        let uses = if room.uses.is_empty() { "no room".to_owned() } else { room.uses.join(", ") };
        let tests = if dependency.dev { "the tests of " } else { "" };
        format!("{tests}`{}` must not depend on `{to}` (allowed: {uses})", room.name)
    })
}

fn packages(metadata: &Value) -> Option<Vec<Package>> {
    let root = metadata.get("workspace_root")?.as_str()?;
    let listed = metadata.get("packages")?.as_array()?.iter();
    listed.map(|package| read_package(package, root)).collect()
}

fn read_package(package: &Value, root: &str) -> Option<Package> {
    let manifest = package.get("manifest_path")?.as_str()?;
    let relative = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
    let dependencies = package.get("dependencies")?.as_array()?.iter().map(read_dependency);
    Some(Package {
        name: package.get("name")?.as_str()?.to_owned(),
        manifest: relative.to_owned(),
        dependencies: dependencies.collect::<Option<_>>()?,
    })
}

fn read_dependency(dependency: &Value) -> Option<Dependency> {
    Some(Dependency {
        name: dependency.get("name")?.as_str()?.to_owned(),
        local: dependency.get("path").is_some_and(Value::is_string),
        dev: dependency.get("kind").and_then(Value::as_str) == Some("dev"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The findings for one crate that depends on one other crate of the workspace.
    fn edge(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        dependency(from, &json!({ "name": to, "kind": kind, "path": format!("/repo/crates/{to}") }))
    }

    fn dependency(from: &str, dependency: &Value) -> Vec<String> {
        let metadata = json!({
            "workspace_root": "/repo",
            "packages": [{
                "name": from,
                "manifest_path": format!("/repo/crates/{from}/Cargo.toml"),
                "dependencies": [dependency],
            }],
        });
        check(&metadata).unwrap().iter().map(Finding::to_string).collect()
    }

    #[test]
    fn an_arrow_of_the_table_is_fine() {
        assert!(edge("server", "engine", None).is_empty());
        assert!(edge("cli", "store", None).is_empty());
        assert!(edge("native", "llm", None).is_empty());
        assert!(edge("project", "plugins", None).is_empty());
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_names_the_manifest_and_the_alternatives() {
        assert_eq!(
            edge("server", "store", None),
            ["crates/server/Cargo.toml: `server` must not depend on `store` \
              (allowed: engine, protocol, web, workspace)"]
        );
        assert_eq!(
            edge("llm", "protocol", None),
            ["crates/llm/Cargo.toml: `llm` must not depend on `protocol` (allowed: net)"]
        );
    }

    #[test]
    fn no_arrow_points_back_up() {
        for (from, to) in [
            ("protocol", "engine"),
            ("engine", "store"),
            ("store", "project"),
            ("project", "cli"),
            ("client", "engine"),
            ("supervision", "native"),
            ("supervision", "drivers"),
            ("native", "drivers"),
        ] {
            assert_eq!(edge(from, to, None).len(), 1, "{from} -> {to}");
        }
    }

    #[test]
    fn build_dependencies_are_as_strict_as_normal_ones() {
        assert_eq!(edge("server", "store", Some("build")).len(), 1);
    }

    #[test]
    fn tests_may_use_the_rooms_listed_for_tests_and_no_others() {
        assert!(edge("server", "store", Some("dev")).is_empty());
        assert_eq!(edge("store", "native", Some("dev")).len(), 1);
        assert_eq!(edge("engine", "store", Some("dev")).len(), 1);
        assert_eq!(edge("client", "server", Some("dev")).len(), 1);
    }

    #[test]
    fn testkit_is_for_tests_only() {
        assert!(edge("client", "testkit", Some("dev")).is_empty());
        assert_eq!(edge("cli", "testkit", None).len(), 1);
        assert_eq!(edge("cli", "testkit", Some("build")).len(), 1);
    }

    #[test]
    fn an_unknown_crate_must_be_listed_first() {
        let found = edge("helpers", "protocol", None);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("not in the table"), "{found:?}");
    }

    #[test]
    fn a_published_crate_with_the_name_of_a_room_is_no_arrow() {
        assert!(dependency("llm", &json!({ "name": "client", "kind": null })).is_empty());
    }

    #[test]
    fn protocol_stays_light_but_its_tests_may_use_anything_published() {
        assert!(dependency("protocol", &json!({ "name": "serde", "kind": null })).is_empty());
        assert_eq!(dependency("protocol", &json!({ "name": "tokio", "kind": null })).len(), 1);
        assert!(dependency("protocol", &json!({ "name": "proptest", "kind": "dev" })).is_empty());
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        // Removes every room whose uses are already removed, until none is left: possible only without a cycle.
        let mut drawn: Vec<&str> = Vec::new();
        let mut waiting: Vec<&Room> = ROOMS.iter().collect();
        while !waiting.is_empty() {
            let (ready, rest): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|room| room.uses.iter().all(|used| drawn.contains(used)));
            assert!(!ready.is_empty(), "a cycle among the rooms not drawn yet");
            drawn.extend(ready.iter().map(|room| room.name));
            waiting = rest;
        }
    }
}
