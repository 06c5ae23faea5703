//! Logging in to providers in the ways that plugins bring along.

use std::collections::BTreeMap;

use ::plugins::host::Unbegun;
use protocol::login::{Authorization, Login, LoginBegin, LoginComplete, LoginMethod};
use server::LoginFault;

use super::plugins::Plugins;

impl Plugins {
    /// The ways to log in that plugins bring along, by provider.
    pub(super) fn login_methods(&self) -> BTreeMap<String, Vec<LoginMethod>> {
        self.host().map(::plugins::host::Host::methods).unwrap_or_default()
    }

    /// Begins a login.
    pub(super) async fn begin_login(
        &self,
        provider: &str,
        how: LoginBegin,
    ) -> Result<Option<Authorization>, LoginFault> {
        let Some(host) = self.host() else { return Err(self.fault(provider, Unbegun::Unknown)) };
        let revealed = |inputs: BTreeMap<String, protocol::config::Secret>| {
            inputs.into_iter().map(|(name, text)| (name, text.reveal().to_owned())).collect()
        };
        let inputs: Option<BTreeMap<String, String>> = how.inputs.map(revealed);
        let begun = host.authorize(provider, how.method, inputs.as_ref()).await;
        begun.map_err(|unbegun| self.fault(provider, unbegun))
    }

    /// Completes a login: what is to be kept of it.
    pub(super) async fn complete_login(
        &self,
        provider: &str,
        how: LoginComplete,
    ) -> Result<Option<Login>, LoginFault> {
        let Some(host) = self.host() else { return Err(self.fault(provider, Unbegun::Missing)) };
        let code = how.code.as_ref().map(protocol::config::Secret::reveal);
        host.complete(provider, code).await.map_err(|unbegun| self.fault(provider, unbegun))
    }

    fn fault(&self, provider: &str, unbegun: Unbegun) -> LoginFault {
        let text = format!("{provider}: {unbegun}");
        match unbegun {
            Unbegun::Unknown => LoginFault::Unusable(format!(
                "{provider}: there is no such way to log in; there are {}, and PUT /auth/{provider} keeps a key",
                self.ways(provider)
            )),
            Unbegun::Unusable(_) => LoginFault::Unusable(text),
            Unbegun::Invalid { field, message } => LoginFault::Invalid { field, message },
            Unbegun::Missing => LoginFault::Missing(text),
            Unbegun::CodeMissing => LoginFault::CodeMissing(text),
            Unbegun::Failed(_) => LoginFault::Failed(text),
        }
    }

    /// The ways to log in to a provider, for people.
    fn ways(&self, provider: &str) -> String {
        let methods = self.login_methods().remove(provider).unwrap_or_default();
        let ways = methods.iter().enumerate().map(|(number, way)| format!("{number} ({})", way.label));
        let ways: Vec<String> = ways.collect();
        if ways.is_empty() { "none".to_owned() } else { ways.join(", ") }
    }
}
