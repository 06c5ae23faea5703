//! TLS in front of a fake, with a self-signed certificate.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Result;
use rcgen::CertifiedKey;
use rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// The host name in the certificate.
const NAME: &str = "localhost";

/// A TLS listener in front of a plain one.
#[derive(Debug)]
pub struct Front {
    /// Host name and port.
    pub address: String,
    /// The self-signed certificate as PEM, for clients to trust.
    pub certificate: String,
}

impl Front {
    /// Listens on a free port of loopback.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("{NAME}:{}", listener.local_addr()?.port());
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), target));
        Ok(Self { address, certificate: cert.pem() })
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, target: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A client that does not trust the certificate disconnects.
            let mut secured = acceptor.accept(stream).await?;
            let mut plain = TcpStream::connect(target).await?;
            copy_bidirectional(&mut secured, &mut plain).await
        });
    }
}
