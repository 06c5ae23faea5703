//! Maps Slack's errors to faults.

use std::time::Duration;

use crate::AdapterError;

/// A failed call, with Slack's error code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    /// Slack's error code, if it sent one.
    pub name: Option<String>,
    pub fault: AdapterError,
}

/// Errors that only another token or another setting of the app can fix.
const HOPELESS: [&str; 10] = [
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "no_permission",
    "missing_scope",
    "not_allowed_token_type",
    "forbidden_team",
    "org_login_required",
];

impl ApiError {
    /// Maps an answer with `"ok": false`. `after` is the pause that Slack asks for, `needed` the missing scope.
    pub(super) fn named(name: &str, needed: Option<&str>, after: Duration) -> Self {
        let fault = match name {
            "ratelimited" | "rate_limited" => AdapterError::Busy { after },
            "service_unavailable" | "team_added_to_org" => AdapterError::Unreachable(name.to_owned()),
            "fatal_error" | "internal_error" | "request_timeout" => AdapterError::Uncertain(name.to_owned()),
            _ => AdapterError::Refused(
                advice(name, needed).map_or_else(|| name.to_owned(), |help| format!("{name}: {help}")),
            ),
        };
        Self { name: Some(name.to_owned()), fault }
    }

    /// True if the error is one of these.
    pub(super) fn is(&self, names: &[&str]) -> bool {
        self.name.as_deref().is_some_and(|name| names.contains(&name))
    }

    /// True if a retry is useless.
    pub(super) fn is_hopeless(&self) -> bool {
        self.is(&HOPELESS)
    }
}

impl From<AdapterError> for ApiError {
    fn from(fault: AdapterError) -> Self {
        Self { name: None, fault }
    }
}

impl From<ApiError> for AdapterError {
    fn from(error: ApiError) -> Self {
        error.fault
    }
}

/// The fix for an error, if it is known.
fn advice(name: &str, needed: Option<&str>) -> Option<String> {
    let words = match name {
        "invalid_auth" | "not_authed" | "token_revoked" | "token_expired" | "account_inactive" => {
            "the token is wrong or no longer valid; copy it again from the app's settings"
        }
        "not_allowed_token_type" => {
            "this is another kind of token; botToken begins with xoxb- and appToken with xapp-"
        }
        "missing_scope" => {
            let scope = needed.map_or("the missing scope".to_owned(), |needed| format!("the scope {needed}"));
            return Some(format!("give the app {scope} and install it again"));
        }
        "not_in_channel" => "invite the app to the channel",
        "channel_not_found" => "the app cannot see the channel; invite it",
        "is_archived" => "the channel is archived",
        "restricted_action" | "restricted_action_thread_only_channel" | "no_permission" => {
            "the workspace does not allow the app to write here"
        }
        "cant_update_message" | "edit_window_closed" => "the message can no longer be changed",
        "unknown_method" => "the server at this address does not have this method",
        _ => return None,
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(name: &str) -> AdapterError {
        ApiError::named(name, None, Duration::from_secs(7)).fault
    }

    #[test]
    fn only_calls_that_were_certainly_not_carried_out_are_retried() {
        assert_eq!(fault("ratelimited"), AdapterError::Busy { after: Duration::from_secs(7) });
        assert!(matches!(fault("internal_error"), AdapterError::Uncertain(_)));
        assert!(matches!(fault("fatal_error"), AdapterError::Uncertain(_)));
        assert!(matches!(fault("something_new"), AdapterError::Refused(_)));
    }

    #[test]
    fn a_refusal_names_the_remedy() {
        assert_eq!(
            fault("not_in_channel").to_string(),
            "the service refused: not_in_channel: invite the app to the channel"
        );
        let scope = ApiError::named("missing_scope", Some("files:write"), Duration::ZERO);
        assert!(scope.fault.to_string().contains("files:write") && scope.is_hopeless());
    }
}
