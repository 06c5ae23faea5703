//! How to be somebody at a provider, as clients hand it over and as it is kept, which is never sent back; and the ways to
//! become it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Millis,
    config::{Secret, Variables},
};

/// A key or a login for a provider. It has no `Serialize`, as its secrets have none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Login {
    /// With a key.
    Api {
        /// The key.
        key: Secret,
        /// What else the provider wants to know.
        #[serde(default)]
        metadata: Variables,
    },
    /// With a login.
    #[serde(rename_all = "camelCase")]
    Oauth {
        /// Gets a new `access`.
        refresh: Secret,
        /// Is sent along.
        access: Secret,
        /// When `access` ends.
        expires: Millis,
        /// Whose login it is.
        #[serde(default)]
        account_id: Option<String>,
        /// Where, if at an enterprise's own installation.
        #[serde(default)]
        enterprise_url: Option<String>,
    },
    /// With what an organisation's site hands out.
    WellKnown {
        /// The environment variable that the token is for.
        key: String,
        /// The token.
        token: Secret,
    },
}

impl Login {
    /// A key and nothing else.
    pub fn api(key: impl Into<String>) -> Self {
        Self::Api { key: Secret::new(key), metadata: Variables::default() }
    }
}

/// A way to log in to a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginMethod {
    /// With a browser or with a key.
    pub r#type: LoginKind,
    /// For people.
    pub label: String,
    /// What is asked before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Vec<LoginPrompt>>,
}

/// How somebody logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginKind {
    /// With a browser.
    Oauth,
    /// With a key.
    Api,
}

/// Something that is asked before somebody logs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum LoginPrompt {
    /// A text.
    Text {
        /// What the answer is called.
        key: String,
        /// For people.
        message: String,
        /// What an answer might look like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placeholder: Option<String>,
        /// When it is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<LoginRule>,
    },
    /// One of several.
    Select {
        /// What the answer is called.
        key: String,
        /// For people.
        message: String,
        /// The answers there are.
        options: Vec<LoginOption>,
        /// When it is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<LoginRule>,
    },
}

/// One of several answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginOption {
    /// For people.
    pub label: String,
    /// The answer.
    pub value: String,
    /// More for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// When something is asked: depending on an earlier answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginRule {
    /// What the earlier answer is called.
    pub key: String,
    /// Whether it has to be the same.
    pub op: LoginComparison,
    /// As what.
    pub value: String,
}

/// Whether two answers have to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginComparison {
    /// They have to be the same.
    Eq,
    /// They must not be.
    Neq,
}

/// Begins a login.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct LoginBegin {
    /// Which of the provider's ways to log in, counted from zero.
    pub method: u32,
    /// What was asked before, and answered.
    #[serde(default)]
    pub inputs: Option<BTreeMap<String, Secret>>,
}

/// Where somebody has to go to log in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Authorization {
    /// The address.
    pub url: String,
    /// How it ends.
    pub method: AuthorizationMethod,
    /// For people.
    pub instructions: String,
}

/// How a login ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthorizationMethod {
    /// By itself.
    Auto,
    /// With a code that somebody brings back.
    Code,
}

/// Completes a login.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct LoginComplete {
    /// Which of the provider's ways to log in, counted from zero.
    pub method: u32,
    /// What somebody brought back.
    #[serde(default)]
    pub code: Option<Secret>,
}
