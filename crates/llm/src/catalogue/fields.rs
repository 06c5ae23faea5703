//! Parses configuration JSON with errors that name the invalid key.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::ConfigError;
use crate::{CallHeaders, Deadlines};

/// An object of the configuration with its path.
#[derive(Debug, Clone)]
pub(super) struct Fields<'v> {
    fields: Option<&'v Map<String, Value>>,
    path: String,
}

impl<'v> Fields<'v> {
    /// The outermost object.
    pub(super) fn of(value: &'v Value) -> Result<Self, ConfigError> {
        Self::at(value, String::new())
    }

    fn at(value: &'v Value, path: String) -> Result<Self, ConfigError> {
        match value {
            Value::Object(fields) => Ok(Self { fields: Some(fields), path }),
            Value::Null => Ok(Self { fields: None, path }),
            _ => Err(ConfigError { key: path, expected: "an object" }),
        }
    }

    /// A value, if it is present and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'v Value> {
        self.fields?.get(key).filter(|value| !value.is_null())
    }

    fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| ConfigError { key: self.path(key), expected })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        self.read(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// A text that is not empty.
    pub(super) fn filled(&self, key: &str) -> Result<Option<String>, ConfigError> {
        Ok(self.text(key)?.filter(|text| !text.is_empty()))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.read(key, "true or false", Value::as_bool)
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        self.read(key, "a number", Value::as_f64)
    }

    pub(super) fn count(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        self.read(key, "a number of tokens", |_| {
            crate::json::count(&Value::Object(self.fields?.clone()), key)
        })
    }

    /// A timeout in milliseconds, or `false` for none.
    pub(super) fn wait(&self, key: &str) -> Result<Option<Duration>, ConfigError> {
        self.read(key, "a number of milliseconds, or false", |value| match value {
            Value::Bool(false) => Some(Deadlines::wait(None)),
            value => value.as_u64().map(|millis| Deadlines::wait(Some(millis))),
        })
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, ConfigError> {
        self.read(key, "a list of texts", |value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        })
    }

    pub(super) fn map(&self, key: &str) -> Result<Option<Map<String, Value>>, ConfigError> {
        self.read(key, "an object", |value| value.as_object().cloned())
    }

    pub(super) fn text_map(&self, key: &str) -> Result<Option<BTreeMap<String, String>>, ConfigError> {
        self.read(key, "an object of texts", |value| {
            let fields = value.as_object()?.iter();
            fields.map(|(key, value)| value.as_str().map(|value| (key.clone(), value.to_owned()))).collect()
        })
    }

    pub(super) fn headers(&self) -> Result<Option<CallHeaders>, ConfigError> {
        Ok(self.text_map("headers")?.map(|headers| headers.into_iter().collect()))
    }

    /// An inner object; empty if absent.
    pub(super) fn inner(&self, key: &str) -> Result<Self, ConfigError> {
        Self::at(self.get(key).unwrap_or(&Value::Null), self.path(key))
    }

    /// Entries of an inner object, each an object.
    pub(super) fn each(&self, key: &str) -> Result<Vec<(&'v str, Self)>, ConfigError> {
        self.inner(key)?.all()
    }

    /// Entries, each an object.
    pub(super) fn all(&self) -> Result<Vec<(&'v str, Self)>, ConfigError> {
        let fields = self.fields.into_iter().flatten();
        fields.map(|(key, value)| Ok((key.as_str(), Self::at(value, self.path(key))?))).collect()
    }

    /// Elements of an inner list, each an object.
    pub(super) fn items(&self, key: &str) -> Result<Vec<Self>, ConfigError> {
        let items = self.read(key, "a list", |value| value.as_array())?.into_iter().flatten();
        items.map(|item| Self::at(item, self.path(key))).collect()
    }

    /// All fields except these.
    pub(super) fn rest(&self, but: &[&str]) -> Map<String, Value> {
        let fields = self.fields.into_iter().flatten();
        let fields = fields.filter(|(key, _)| !but.contains(&key.as_str()));
        fields.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// Replaces a value, if there is a new one.
pub(super) fn set<T>(to: &mut T, from: Option<T>) {
    if let Some(from) = from {
        *to = from;
    }
}
