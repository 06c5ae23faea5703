//! TLS with rustls on `ring` and the system's root certificates.

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::Error;

pub(super) fn config() -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Skips unreadable certificates.
    let (trusted, _) = roots.add_parsable_certificates(found.certs);
    if trusted == 0 {
        tracing::warn!(
            "the system has no root certificates, so no provider can be reached by https; \
             on Linux, install the package `ca-certificates`"
        );
    }
    let mut config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Other(format!("cannot set up TLS: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
