//! Credentials for providers, and the login methods that a provider offers. Clients send credentials; the server
//! never returns them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    Millis,
    config::{Secret, Variables},
};

/// A credential for a provider. It does not implement `Serialize`, because its secrets do not.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Login {
    /// An API key of the user.
    Api {
        key: Secret,
        /// Additional values that the provider requires.
        #[serde(default)]
        metadata: Variables,
    },
    /// An OAuth login.
    #[serde(rename_all = "camelCase")]
    Oauth {
        /// Refresh token, with which Baton gets a new `access`.
        refresh: Secret,
        /// Access token, valid until `expires`.
        access: Secret,
        /// Expiry of `access`.
        expires: Millis,
        /// Account of the login.
        #[serde(default)]
        account_id: Option<String>,
        /// URL of a company's own installation.
        #[serde(default)]
        enterprise_url: Option<String>,
    },
    /// A token that an organisation's site issues.
    WellKnown {
        /// Environment variable that the token is for.
        key: String,
        token: Secret,
    },
}

impl Login {
    /// Creates an API key credential without metadata.
    pub fn api(key: impl Into<String>) -> Self {
        Self::Api { key: Secret::new(key), metadata: Variables::default() }
    }
}

/// A login method of a provider.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginMethod {
    pub r#type: LoginKind,
    /// Name that clients display.
    pub label: String,
    /// Questions to answer before the login.
    pub prompts: Option<Vec<LoginPrompt>>,
}

/// Kind of a login method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginKind {
    /// A login in the browser.
    Oauth,
    /// The user enters an API key.
    Api,
}

/// A question that the user answers before a login.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum LoginPrompt {
    /// The user enters a text.
    Text {
        /// Name of the answer in `inputs`.
        key: String,
        message: String,
        /// Example of an answer.
        placeholder: Option<String>,
        /// Condition under which the client asks.
        when: Option<LoginRule>,
    },
    /// The user selects an option.
    Select {
        /// Name of the answer in `inputs`.
        key: String,
        message: String,
        /// The possible answers.
        options: Vec<LoginOption>,
        /// Condition under which the client asks.
        when: Option<LoginRule>,
    },
}

/// A possible answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginOption {
    pub label: String,
    pub value: String,
    /// Additional explanation.
    pub hint: Option<String>,
}

/// Condition for a question: a comparison with an earlier answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginRule {
    /// Name of the earlier answer.
    pub key: String,
    pub op: LoginComparison,
    pub value: String,
}

/// Comparison in a [`LoginRule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginComparison {
    /// The answer equals the value.
    Eq,
    /// The answer differs from the value.
    Neq,
}

/// Starts a login.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct LoginBegin {
    /// Index of the login method, starting at 0.
    pub method: u32,
    /// Answers to the method's questions, by name.
    #[serde(default)]
    pub inputs: Option<BTreeMap<String, Secret>>,
}

/// Instructions for the user to continue a login in the browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Authorization {
    /// URL that the user opens.
    pub url: String,
    pub method: AuthorizationMethod,
    pub instructions: String,
}

/// Completion of a browser login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthorizationMethod {
    /// The login completes without further input.
    Auto,
    /// The user copies a code back.
    Code,
}

/// Completes a login.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct LoginComplete {
    /// Index of the login method, starting at 0.
    pub method: u32,
    /// The code that the user copied; absent for `auto`.
    #[serde(default)]
    pub code: Option<Secret>,
}
