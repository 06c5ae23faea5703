//! Errors of logins as clients see them.

use protocol::wire_error::{NamedError, WireError};
use serde_json::{Map, Value};

use crate::{Error, error::Fault, instance::Invalid};

/// The reason why a login could not be started or completed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoginFault {
    /// The directory's configuration is invalid.
    #[error(transparent)]
    Configuration(#[from] Invalid),
    /// The login method does not exist or does not work.
    #[error("{0}")]
    Unusable(String),
    /// An answer to a question of the login method is invalid.
    #[error("{message}")]
    Invalid {
        /// Name of the answer.
        field: String,
        message: String,
    },
    /// No login is in progress.
    #[error("{0}")]
    Missing(String),
    /// The login needs a code and the client sent none.
    #[error("{0}")]
    CodeMissing(String),
    /// The login failed.
    #[error("{0}")]
    Failed(String),
}

impl LoginFault {
    /// Error names on the wire.
    pub(crate) const NAMES: [&str; 5] = [
        "BadRequest",
        "ProviderAuthValidationFailed",
        "ProviderAuthOauthMissing",
        "ProviderAuthOauthCodeMissing",
        "ProviderAuthOauthCallbackFailed",
    ];

    /// Converts to the wire error for a provider. The names are OpenCode's.
    pub(crate) fn about(self, provider: &str) -> Error {
        let text = self.to_string();
        let (name, field) = match self {
            Self::Configuration(invalid) => return invalid.into(),
            Self::Unusable(_) => ("BadRequest", None),
            Self::Invalid { field, .. } => ("ProviderAuthValidationFailed", Some(field)),
            Self::Missing(_) => ("ProviderAuthOauthMissing", None),
            Self::CodeMissing(_) => ("ProviderAuthOauthCodeMissing", None),
            Self::Failed(_) => ("ProviderAuthOauthCallbackFailed", None),
        };
        let field = field.map(|field| ("field", field));
        let data = [("providerID", provider.to_owned()), ("message", text)].into_iter().chain(field);
        let data: Map<String, Value> = data.map(|(name, text)| (name.to_owned(), text.into())).collect();
        let body = NamedError::Other { name: name.to_owned(), data: data.into() };
        Error::new(Fault::LogIn, WireError::Named(body))
    }
}
