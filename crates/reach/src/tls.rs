//! TLS: rustls on `ring`, trusting whom the system trusts, as everywhere in this program.

use std::sync::OnceLock;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// Set up once: reading the system's certificates takes a while.
pub fn config() -> Result<ClientConfig, String> {
    static CONFIG: OnceLock<Result<ClientConfig, String>> = OnceLock::new();
    CONFIG.get_or_init(set_up).clone()
}

fn set_up() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // One unreadable certificate must not spoil the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot set up TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
