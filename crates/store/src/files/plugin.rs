//! Plugins in a configuration: the identity of entries, and the resolution of paths.
//!
//! An entry is the name of a package (`name@version`), a path or a `file://` address; or a pair of that and
//! options. The same package or file is loaded once: the last entry wins, at its place.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Environment, walk};

/// Appends entries to a list and removes repeated ones.
pub(super) fn append(below: &mut Vec<Value>, above: Vec<Value>) {
    below.extend(above);
    let mut kept: Vec<Value> = Vec::with_capacity(below.len());
    for entry in below.drain(..).rev() {
        let repeated = match identity(&entry) {
            Some(identity) => kept.iter().any(|kept| self::identity(kept) == Some(identity)),
            None => kept.contains(&entry),
        };
        if !repeated {
            kept.push(entry);
        }
    }
    kept.reverse();
    *below = kept;
}

/// The identity of an entry: the address of a file, or the name of a package without its version.
fn identity(entry: &Value) -> Option<&str> {
    let spec = match entry {
        Value::Array(pair) => pair.first()?.as_str()?,
        other => other.as_str()?,
    };
    // A scope begins with the character that otherwise begins a version.
    let version = spec.rfind('@').filter(|at| *at > 0 && !spec.starts_with("file://"));
    version.map_or(Some(spec), |at| spec.get(..at))
}

/// The file of a plugin with a resolved path; `None` for a package.
pub(super) fn file(entry: &Value) -> Option<PathBuf> {
    let address = identity(entry)?.strip_prefix("file://")?;
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address;
    while let Some((plain, encoded)) = rest.split_once('%') {
        bytes.extend(plain.bytes());
        let byte = encoded.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend(byte.or(Some(b'%')));
        rest = encoded.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    bytes.extend(rest.bytes());
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// Makes paths in a list of plugins absolute, so that they no longer depend on the file they are from.
pub(super) fn resolve(plugins: &mut Value, environment: &Environment, from: &Path) {
    let Value::Array(entries) = plugins else { return };
    for entry in entries {
        let spec = match entry {
            Value::Array(pair) => pair.first_mut(),
            other => Some(other),
        };
        if let Some(Value::String(spec)) = spec
            && (spec.starts_with('.') || spec.starts_with("~/") || Path::new(spec.as_str()).is_absolute())
        {
            *spec = address(&walk::clean(&environment.resolve(spec, from)));
        }
    }
}

pub(super) fn address(path: &Path) -> String {
    let path = path.to_string_lossy();
    let letters = path.bytes().map(|byte| {
        let plain = byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
        if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    format!("file://{}", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plugin_is_known_by_its_package_or_its_file() {
        let cases = [
            (json!("one"), "one"),
            (json!("one@1.2.3"), "one"),
            (json!("@scope/one"), "@scope/one"),
            (json!("@scope/one@latest"), "@scope/one"),
            (json!(["one@2", { "x": 1 }]), "one"),
            (json!("file:///a@b.ts"), "file:///a@b.ts"),
        ];
        for (entry, expected) in cases {
            assert_eq!(identity(&entry), Some(expected), "{entry}");
        }
    }

    #[test]
    fn the_file_of_a_plugin_is_found_again() {
        for path in ["/p/a b.ts", "/p/100%.ts", "/p/ü.ts"] {
            assert_eq!(file(&json!(address(Path::new(path)))), Some(path.into()));
        }
        assert_eq!(file(&json!(["file:///odd%zz%", {}])), Some("/odd%zz%".into()));
        assert_eq!(file(&json!("one@1")), None);
    }

    #[test]
    fn paths_are_relative_to_their_file() {
        let environment = Environment::of([("HOME", "/h")]);
        let mut plugins =
            json!(["./a b.ts", ["../c.ts", {}], "/d.ts", "~/e.ts", "one", "file:///f.ts", "./x/../d.ts"]);
        resolve(&mut plugins, &environment, Path::new("/p/q"));
        assert_eq!(
            plugins,
            json!([
                "file:///p/q/a%20b.ts",
                ["file:///p/c.ts", {}],
                "file:///d.ts",
                "file:///h/e.ts",
                "one",
                "file:///f.ts",
                "file:///p/q/d.ts"
            ])
        );
    }
}
