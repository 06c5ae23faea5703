//! Why a login was not begun or not completed, as clients are told.

use protocol::wire_error::{NamedError, WireError};
use serde_json::{Map, Value};

use crate::{Error, error::Fault, instance::Invalid};

/// Why a login was not begun or not completed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoginFault {
    /// The directory's configuration cannot be used.
    #[error(transparent)]
    Configuration(#[from] Invalid),
    /// There is no such way to log in, or it does not work.
    #[error("{0}")]
    Unusable(String),
    /// What was answered beforehand does not fit.
    #[error("{message}")]
    Invalid {
        /// What the answer is called.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// No login waits to be completed.
    #[error("{0}")]
    Missing(String),
    /// It needs a code, and there was none.
    #[error("{0}")]
    CodeMissing(String),
    /// It did not work.
    #[error("{0}")]
    Failed(String),
}

impl LoginFault {
    /// What it is called when it is told.
    pub(crate) const NAMES: [&str; 5] = [
        "BadRequest",
        "ProviderAuthValidationFailed",
        "ProviderAuthOauthMissing",
        "ProviderAuthOauthCodeMissing",
        "ProviderAuthOauthCallbackFailed",
    ];

    /// As it is told about a provider. The names are OpenCode's.
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
