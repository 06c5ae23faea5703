//! Login flows of providers that plugins implement.

use std::collections::BTreeMap;

use ::plugins::host::LoginError;
use protocol::login::{Authorization, Login, LoginBegin, LoginComplete, LoginMethod};
use server::LoginFault;

use crate::plugins::Plugins;

impl Plugins {
    /// Returns the login methods that plugins offer, by provider.
    pub(crate) fn login_methods(&self) -> BTreeMap<String, Vec<LoginMethod>> {
        self.host().map(::plugins::host::Host::methods).unwrap_or_default()
    }

    /// Starts a login. Returns where the user authorises it, or nothing if the method only stores a key.
    pub(crate) async fn begin_login(
        &self,
        provider: &str,
        how: LoginBegin,
    ) -> Result<Option<Authorization>, LoginFault> {
        let Some(host) = self.host() else { return Err(self.fault(provider, LoginError::Unknown)) };
        let revealed = |inputs: BTreeMap<String, protocol::config::Secret>| {
            inputs.into_iter().map(|(name, text)| (name, text.reveal().to_owned())).collect()
        };
        let inputs: Option<BTreeMap<String, String>> = how.inputs.map(revealed);
        let begun = host.authorize(provider, how.method, inputs.as_ref()).await;
        begun.map_err(|unbegun| self.fault(provider, unbegun))
    }

    /// Completes a login. Returns the login to store.
    pub(crate) async fn complete_login(
        &self,
        provider: &str,
        how: LoginComplete,
    ) -> Result<Option<Login>, LoginFault> {
        let Some(host) = self.host() else { return Err(self.fault(provider, LoginError::Missing)) };
        let code = how.code.as_ref().map(protocol::config::Secret::reveal);
        host.complete(provider, code).await.map_err(|unbegun| self.fault(provider, unbegun))
    }

    fn fault(&self, provider: &str, unbegun: LoginError) -> LoginFault {
        let text = format!("{provider}: {unbegun}");
        match unbegun {
            LoginError::Unknown => LoginFault::Unusable(format!(
                "{provider}: no such login method; there are {}, and PUT /auth/{provider} stores a key",
                self.method_list(provider)
            )),
            LoginError::Unusable(_) => LoginFault::Unusable(text),
            LoginError::Invalid { field, message } => LoginFault::Invalid { field, message },
            LoginError::Missing => LoginFault::Missing(text),
            LoginError::CodeMissing => LoginFault::CodeMissing(text),
            LoginError::Failed(_) => LoginFault::Failed(text),
        }
    }

    /// Lists the login methods of a provider for an error message.
    fn method_list(&self, provider: &str) -> String {
        let methods = self.login_methods().remove(provider).unwrap_or_default();
        let labels =
            methods.iter().enumerate().map(|(number, method)| format!("{number} ({})", method.label));
        let labels: Vec<String> = labels.collect();
        if labels.is_empty() { "none".to_owned() } else { labels.join(", ") }
    }
}
