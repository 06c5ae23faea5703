//! TLS for servers that are reached by `https`.

use reqwest::Url;
use rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::Error;

/// The TLS configuration for an address, with the system's root certificates. Plain `http` loads none, which is
/// faster and works where there are none.
pub fn config(address: &Url) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    if address.scheme() == "https" {
        // One unreadable certificate must not prevent the use of the others.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = ring::default_provider().into();
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
