//! Changes a configuration file for a client and preserves the rest of it as its owner wrote it: comments, order,
//! placeholders like `{env:NAME}` and unknown keys.
//!
//! Maps are merged key by key, `null` removes a key, everything else is replaced. The resulting configuration is
//! validated first; a change that would make it invalid is not written.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::{Map, Value};

use super::{
    Environment, Invalid, Loaded, Position, Problem, Site, Source, TrustPolicy, document,
    layers::{self, Draft, MAX_BYTES, OWN_KEYS},
    replace::{OWNER_ONLY, replace},
    schema, walk,
};

/// The names of files that can be changed, the one with precedence first.
const NAMES: [&str; 2] = ["opencode.jsonc", "opencode.json"];

/// The name of a new file.
const NEW: &str = "opencode.json";

/// The reason why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Unchanged {
    /// The change would make the configuration invalid.
    #[error("nothing was written, because the configuration would be invalid:\n{0}")]
    Invalid(Invalid),
    /// Clients may not make this change.
    #[error("nothing was written: {0}")]
    Refused(String),
    /// The file cannot be read or written.
    #[error("{} cannot be changed: {}", .path.display(), walk::reason(.source))]
    File { path: PathBuf, source: io::Error },
}

/// Changes the project's configuration for a site or, without one, the user's, which applies everywhere. Returns
/// the resulting configuration. Callers must not run two changes at once.
pub fn change(
    environment: &Environment,
    site: Option<(&Site, &TrustPolicy)>,
    change: &Map<String, Value>,
) -> Result<Loaded, Unchanged> {
    if let Some(own) = OWN_KEYS.into_iter().find(|key| change.contains_key(*key)) {
        let message =
            format!("clients cannot set `{own}`, which is Baton's own key; write it into baton.json");
        return Err(Unchanged::Refused(message));
    }
    let path = match site {
        Some((site, _)) => of_project(environment, site)?,
        None => of_user(environment)?,
    };
    check_keys(change, &path)?;
    let failed = |source| Unchanged::File { path: path.clone(), source };
    let old = walk::read(&path, MAX_BYTES).map_err(failed)?;
    let new = edited(old.as_deref().unwrap_or("{}\n"), change, &path)?;
    if u64::try_from(new.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        let message = format!("{} would exceed the limit of {MAX_BYTES} bytes", path.display());
        return Err(Unchanged::Refused(message));
    }
    let draft = Draft { path: &path, text: &new };
    let loaded = match site {
        Some((site, guard)) => layers::load_with(environment, site, guard, Some(draft)),
        None => layers::load_user_with(environment, Some(draft)),
    };
    let loaded = loaded.map_err(Unchanged::Invalid)?;
    if !change.is_empty() && old.as_ref() != Some(&new) {
        write(&path, &new).map_err(failed)?;
    }
    Ok(loaded)
}

/// Refuses keys that no version of Baton or OpenCode knows. In a file they are only worth a warning; a client that sends one
/// learns about it at once.
fn check_keys(change: &Map<String, Value>, path: &Path) -> Result<(), Unchanged> {
    let set = change.iter().filter(|(_, value)| !value.is_null());
    let problem = |(key, _): (&String, &Value)| {
        let problem = Problem::about(&Source::File(path.to_owned()), None, schema::unknown_key(key)?);
        Some(Problem { key: key.clone(), ..problem })
    };
    let problems: Vec<Problem> = set.filter_map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(Unchanged::Invalid(Invalid { problems })) }
}

/// The project's configuration file that is nearest to the directory, or a new one in it.
fn of_project(environment: &Environment, site: &Site) -> Result<PathBuf, Unchanged> {
    if layers::ignores_projects(environment) {
        let message = "OPENCODE_DISABLE_PROJECT_CONFIG is set, so project files have no effect";
        return Err(Unchanged::Refused(message.into()));
    }
    let found = walk::upwards(&site.directory, &site.worktree).find_map(existing);
    Ok(found.unwrap_or_else(|| site.directory.join(NEW)))
}

fn of_user(environment: &Environment) -> Result<PathBuf, Unchanged> {
    let no_home =
        || Unchanged::Refused("the user's configuration directory is unknown: HOME is not set".into());
    let directory = environment.config_dir().ok_or_else(no_home)?;
    Ok(existing(&directory).unwrap_or_else(|| directory.join(NEW)))
}

fn existing(directory: &Path) -> Option<PathBuf> {
    NAMES.into_iter().map(|name| directory.join(name)).find(|path| path.exists())
}

/// Replaces a file, following links and keeping its mode. Only the owner may read a new file, because it may
/// contain a key.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let path = match path.canonicalize() {
        Err(error) if walk::is_absence(&error) => path.to_owned(),
        found => found?,
    };
    let mode = fs::metadata(&path).map_or(OWNER_ONLY, |facts| facts.permissions().mode() & 0o777);
    replace(&path, text.as_bytes(), mode)
}

/// Applies a change to a text.
fn edited(text: &str, change: &Map<String, Value>, path: &Path) -> Result<String, Unchanged> {
    let source = Source::File(path.to_owned());
    let root = CstRootNode::parse(text, &document::SYNTAX).map_err(|error| {
        let at = document::Lines::of(text).position(error.range().start);
        let problem = Problem::about(&source, Some(at), "the text is not JSON");
        Unchanged::Invalid(Invalid { problems: vec![problem] })
    })?;
    let object = root.object_value_or_create().ok_or_else(|| {
        let problem = Problem::about(&source, None, "the text is not a JSON map");
        Unchanged::Invalid(Invalid { problems: vec![problem] })
    })?;
    merge(&object, change);
    Ok(root.to_string())
}

fn merge(object: &CstObject, change: &Map<String, Value>) {
    for (name, value) in change {
        let mut written = object.properties();
        written.retain(|property| property.decoded_name().as_deref() == Some(name));
        // If a key occurs twice, the last one counts.
        match (written.last(), value) {
            (_, Value::Null) => written.into_iter().for_each(CstObjectProp::remove),
            (Some(property), value) => replace_value(property, value),
            (None, value) => drop(object.append(name, input(value))),
        }
    }
}

fn replace_value(property: &CstObjectProp, value: &Value) {
    match (property.object_value(), value) {
        (Some(object), Value::Object(change)) => merge(&object, change),
        // An unchanged value keeps its comments.
        _ if current(property).as_ref() == Some(value) => {}
        _ => property.set_value(input(value)),
    }
}

fn current(property: &CstObjectProp) -> Option<Value> {
    let text = property.value()?.to_string();
    let nowhere = |_| Position { line: 1, column: 1 };
    Some(document::parse(&text, &nowhere).ok()??.into_value())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(switch) => CstInputValue::Bool(*switch),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            // A new value contains nothing to remove.
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            CstInputValue::Object(fields.map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn changed(text: &str, change: &Value) -> String {
        edited(text, change.as_object().unwrap(), Path::new("opencode.json")).unwrap()
    }

    #[test]
    fn unchanged_parts_keep_their_text() {
        let text = "{\n  // the good one\n  \"model\": \"a/b\", // for now\n  \"odd\": { \"x\": [1, /* two */ 2], },\n  \"agent\": {\n    \"poet\": { \"prompt\": \"{file:poet.txt}\" }\n  }\n}\n";
        let change = json!({
            "model": "c/d", "odd": { "x": [1, 2] }, "username": "ada \"A\"\n",
            "agent": { "poet": { "temperature": 0.5 }, "cook": { "tools": {} } },
        });
        insta::assert_snapshot!(changed(text, &change));
    }

    #[test]
    fn null_removes_and_the_last_of_equal_keys_counts() {
        let text = "{ \"a\": 1, \"b\": { \"c\": 1, \"d\": 2 }, \"e\": 1, \"e\": 2 }";
        let text = changed(text, &json!({ "a": null, "b": { "c": null }, "e": 3, "f": { "g": null } }));
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(bare(&text), r#"{"b":{"d":2},"e":1,"e":3,"f":{}}"#);
        assert_eq!(bare(&changed(&text, &json!({ "e": null, "b": null, "f": null }))), "{}");
    }

    #[test]
    fn an_empty_file_gets_a_value() {
        for empty in ["{}\n", "", "// nothing yet\n"] {
            let text = changed(empty, &json!({ "model": "a/b" }));
            assert!(text.contains("\"model\": \"a/b\""), "{text}");
            assert!(text.starts_with(empty.trim_end_matches(['{', '}', '\n'])), "{text}");
        }
        for wrong in ["[]", "{ \"a\" 1 }", "{} {}"] {
            let refused = edited(wrong, &Map::new(), Path::new("/x.json")).unwrap_err().to_string();
            assert!(refused.contains("/x.json"), "{refused}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~\"\\\\\n{}:ä]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[ab\"/]", inner), 0..4)
                    .prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    fn map() -> impl Strategy<Value = Value> {
        prop::collection::vec(("[abc]", value()), 0..4).prop_map(|fields| fields.into_iter().collect())
    }

    /// Applies the same change to a plain value.
    fn plainly(base: &mut Value, change: &Value) {
        let Value::Object(change) = change else { return *base = change.clone() };
        if !base.is_object() {
            *base = json!({});
        }
        let base = base.as_object_mut().unwrap();
        for (name, value) in change {
            if value.is_null() {
                base.remove(name);
            } else if value.is_object() && !base.get(name).is_some_and(Value::is_object) {
                base.insert(name.clone(), without_nulls(value));
            } else {
                plainly(base.entry(name).or_insert(Value::Null), value);
            }
        }
    }

    fn without_nulls(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(_, value)| !value.is_null());
                kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
            }
            Value::Array(items) => items.iter().map(without_nulls).collect(),
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn a_changed_text_parses_to_the_changed_value(old in map(), change in map(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&old).unwrap() } else { old.to_string() };
            let text = changed(&text, &change);
            let new: Value = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
            let mut expected = old;
            plainly(&mut expected, &change);
            // A new map in a list is written without its nulls; an existing one keeps them.
            prop_assert_eq!(without_nulls(&new), without_nulls(&expected));
        }
    }
}
