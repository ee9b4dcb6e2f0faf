//! TLS on both sides: certificates from PEM files. New files count for new connections; open ones are not touched.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::shared::lock;

/// A file that cannot be used for TLS; the text names it and says why.
#[derive(Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

type Result<T> = std::result::Result<T, TlsError>;

/// What a listener shows to its clients, and what it asks of them.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// The certificate, then those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities of which a client must show a certificate; None: clients show none.
    pub client_authorities: Option<PathBuf>,
}

/// What workers are held to, and what they are shown.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// Authorities of the workers' certificates; None: those of the system.
    pub authorities: Option<PathBuf>,
    /// Certificate and private key to be shown to workers.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The listeners that speak TLS, and how.
#[derive(Default)]
pub struct ServerTls(Mutex<HashMap<Arc<str>, TlsAcceptor>>);

impl ServerTls {
    /// From now on connections of the listener `name` use these files. On an error it goes on with those it has.
    pub fn set(&self, name: &str, files: &ServerFiles) -> Result<()> {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(files)?));
        lock(&self.0).insert(name.into(), acceptor);
        Ok(())
    }

    /// The connection as its listener wants it. Errors where the client does not come to terms.
    pub async fn accept(&self, name: &str, socket: TcpStream) -> io::Result<Socket> {
        let acceptor = lock(&self.0).get(name).cloned();
        match acceptor {
            Some(acceptor) => Ok(Socket::Server(Box::new(acceptor.accept(socket).await?))),
            None => Ok(Socket::Plain(socket)),
        }
    }
}

/// How workers at `https://` are reached.
#[derive(Default)]
pub struct ClientTls(Mutex<Option<TlsConnector>>);

impl ClientTls {
    /// From now on connections to workers use these files. On an error it goes on with those it has.
    pub fn set(&self, files: &ClientFiles) -> Result<()> {
        let connector = TlsConnector::from(Arc::new(client_config(files)?));
        *lock(&self.0) = Some(connector);
        Ok(())
    }

    /// Come to terms with the worker `host`; the authorities are the system's where none have been named.
    pub async fn connect(&self, host: &str, socket: TcpStream) -> io::Result<Socket> {
        let connector = self.connector().map_err(io::Error::other)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Socket::Client(Box::new(connector.connect(name, socket).await?)))
    }

    fn connector(&self) -> Result<TlsConnector> {
        let mut known = lock(&self.0);
        if known.is_none() {
            *known = Some(TlsConnector::from(Arc::new(client_config(&ClientFiles::default())?)));
        }
        known
            .clone()
            .ok_or_else(|| TlsError("nothing is known of TLS".to_owned()))
    }
}

/// A connection, in the clear or not.
pub enum Socket {
    Plain(TcpStream),
    Server(Box<tokio_rustls::server::TlsStream<TcpStream>>),
    Client(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Socket {
    /// Whether it is encrypted.
    pub fn is_secure(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }
}

const H2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

fn server_config(files: &ServerFiles) -> Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(path)?), provider());
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(path, &error))?)
        }
    };
    let (chain, key) = (certificates(&files.certificate)?, private_key(&files.key)?);
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.certificate, &error))?;
    config.alpn_protocols = vec![H2.to_vec(), HTTP_1.to_vec()];
    Ok(config)
}

fn client_config(files: &ClientFiles) -> Result<ClientConfig> {
    let roots = files
        .authorities
        .as_deref()
        .map_or_else(system_authorities, authorities)?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?
        .with_root_certificates(roots);
    let mut config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| wrong(certificate, &error))?,
    };
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    Ok(config)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    let found = read.map_err(|error| wrong(path, &error))?;
    if found.is_empty() {
        return Err(TlsError(format!("{} has no certificate", path.display())));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(path, &error))
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| wrong(path, &error))?;
    }
    Ok(roots)
}

fn system_authorities() -> Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let message = "the system has no certificate authorities; name a file with those of the workers";
        return Err(TlsError(message.to_owned()));
    }
    Ok(roots)
}

fn wrong(path: &Path, error: &dyn fmt::Display) -> TlsError {
    TlsError(format!("{} cannot be used: {error}", path.display()))
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Server(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Client(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Server(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Client(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Server(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Client(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Server(socket) => socket.is_write_vectored(),
            Self::Client(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Server(socket) => Pin::new(socket).poll_flush(cx),
            Self::Client(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Server(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Client(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = std::env::temp_dir().join(format!("relay-tls-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key, empty) = (folder.join("cert"), folder.join("key"), folder.join("empty"));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        fs::write(&empty, "").unwrap();
        let files = |certificate: &Path, key: &Path, client_authorities: Option<&Path>| ServerFiles {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            client_authorities: client_authorities.map(Path::to_owned),
        };
        let tls = ServerTls::default();
        tls.set("traffic", &files(&certificate, &key, Some(&certificate)))
            .unwrap();
        for wrong in [
            files(&folder.join("none"), &key, None),
            files(&empty, &key, None),
            files(&certificate, &certificate, None),
            files(&certificate, &key, Some(&empty)),
        ] {
            let error = tls.set("traffic", &wrong).unwrap_err().to_string();
            assert!(error.contains(folder.to_str().unwrap()), "{error}");
        }
        let client = ClientTls::default();
        let authorities = Some(certificate.clone());
        client
            .set(&ClientFiles {
                authorities,
                identity: None,
            })
            .unwrap();
        let error = client
            .set(&ClientFiles {
                authorities: Some(empty),
                identity: None,
            })
            .unwrap_err();
        assert!(error.to_string().ends_with("empty has no certificate"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
