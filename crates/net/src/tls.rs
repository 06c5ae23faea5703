//! TLS for outgoing connections: rustls on `ring`, with the root certificates of the system.

use std::sync::OnceLock;

use reqwest::Url;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// The cryptography provider does not support the default TLS versions.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct Error(#[from] rustls::Error);

/// A configuration that trusts the system's root certificates. Reading them takes a while, so it happens once per
/// process.
pub fn config() -> Result<ClientConfig, Error> {
    static CONFIG: OnceLock<Result<ClientConfig, Error>> = OnceLock::new();
    CONFIG.get_or_init(|| set_up(system_roots())).clone()
}

/// A configuration for a client of one address. A client of a plain `http` address reads no certificates and works on
/// a system that has none.
pub fn config_for(address: &Url) -> Result<ClientConfig, Error> {
    if address.scheme() == "https" { config() } else { set_up(RootCertStore::empty()) }
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Skips certificates that cannot be parsed: one of them must not make the others useless.
    let (trusted, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if trusted == 0 {
        tracing::warn!(
            "the system has no root certificates, so every https connection fails; on Linux, install the package \
             `ca-certificates`"
        );
    }
    roots
}

fn set_up(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let mut config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
