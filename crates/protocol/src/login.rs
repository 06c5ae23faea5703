//! How to be somebody at a provider, as clients hand it over and as it is kept. Nothing here is ever sent back.

use schemars::JsonSchema;
use serde::Deserialize;

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
