//! WhatsApp's calls to the webhook: one to verify its address, then one for each event.

use http::{HeaderMap, Method, StatusCode};
use reqwest::Url;
use ring::hmac;

use super::{
    WhatsApp, graph,
    updates::{place, updates},
    wire::{Body, Delivery, Status},
};
use crate::{
    Inbox, Sent, ledger,
    webhook::{Call, Reply},
};

/// Header with the signature of the body.
const SIGNATURE: &str = "x-hub-signature-256";

/// Maximum length of the challenge; WhatsApp's own is far shorter.
const MAX_CHALLENGE: usize = 1_024;

impl WhatsApp {
    pub(super) async fn answer(&self, call: &Call, inbox: &Inbox) -> Reply {
        match call.method {
            Method::GET => self.verify(&call.query),
            Method::POST if self.is_genuine(&call.headers, &call.body) => self.take(&call.body, inbox).await,
            Method::POST => {
                tracing::warn!("refused a call to the WhatsApp webhook with a wrong signature");
                Reply::refused()
            }
            _ => Reply::absent(),
        }
    }

    /// Answers the registration of the webhook: returns the challenge if the verify token is right.
    fn verify(&self, query: &str) -> Reply {
        let value = |name: &str| {
            let url = Url::parse(&format!("http://webhook/?{query}")).ok()?;
            url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        };
        let token = value("hub.verify_token").unwrap_or_default();
        let is_known = hmac::verify(&self.secret, token.as_bytes(), self.verification.as_ref()).is_ok();
        let challenge = value("hub.challenge").filter(|challenge| challenge.len() <= MAX_CHALLENGE);
        match challenge {
            Some(challenge) if is_known && value("hub.mode").as_deref() == Some("subscribe") => {
                tracing::info!("the WhatsApp webhook is registered");
                Reply::text(StatusCode::OK, challenge)
            }
            _ => {
                tracing::warn!("refused a registration of the WhatsApp webhook with a wrong verify token");
                Reply::refused()
            }
        }
    }

    fn is_genuine(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let signature =
            headers.get(SIGNATURE).and_then(|value| unhex(value.to_str().ok()?.strip_prefix("sha256=")?));
        signature.is_some_and(|signature| hmac::verify(&self.secret, body, &signature).is_ok())
    }

    /// Stores all updates for this number and then returns success. If one cannot be stored, none is, and WhatsApp
    /// sends them again.
    async fn take(&self, body: &[u8], inbox: &Inbox) -> Reply {
        let Ok(body) = serde_json::from_slice::<Body>(body) else {
            tracing::warn!("refused a signed call to the WhatsApp webhook that cannot be parsed");
            return Reply::malformed();
        };
        let deliveries: Vec<Delivery> =
            body.deliveries().filter(|delivery| delivery.metadata.phone_number_id == self.number).collect();
        match store(&deliveries, inbox).await {
            Ok(true) => Reply::done(),
            Ok(false) => Reply::failed(),
            Err(error) => {
                tracing::error!(%error, "cannot store a call of WhatsApp; it will be sent again");
                Reply::failed()
            }
        }
    }
}

/// Returns true if everything is stored.
async fn store(deliveries: &[Delivery], inbox: &Inbox) -> Result<bool, ledger::Error> {
    inbox.accept_all(deliveries.iter().flat_map(updates).collect()).await?;
    let mut is_stored = true;
    for status in deliveries.iter().flat_map(|delivery| &delivery.statuses) {
        is_stored &= attend(status, inbox).await?;
    }
    Ok(is_stored)
}

/// Handles the report that a sent message was not delivered: logs it, and if the user only has to write first,
/// holds the post until then. Returns false if WhatsApp has to repeat the report.
async fn attend(status: &Status, inbox: &Inbox) -> Result<bool, ledger::Error> {
    if status.became != "failed" {
        return Ok(true);
    }
    for error in &status.errors {
        tracing::warn!(
            message = status.id,
            code = error.code,
            "WhatsApp did not deliver a message: {}",
            error.message
        );
    }
    let is_too_late = status.errors.iter().any(|error| error.code == graph::TOO_LATE);
    match status.recipient_id.as_ref().or(status.recipient_user_id.as_ref()) {
        Some(person) if is_too_late => {
            inbox.unseen(&place(person), &Sent(status.id.clone()), status.timestamp).await
        }
        _ => Ok(true),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| u8::try_from(char::from(digit).to_digit(16)?).ok();
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}
