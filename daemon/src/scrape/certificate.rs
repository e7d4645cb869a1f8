//! The certificate of the page: from files, which may be replaced under their names, or one that signs
//! itself, as the kubelet's does where nobody gives it another.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;
use tracing::warn;

use crate::base::causes::chain;

/// Files are read again after it, when somebody comes.
const READ_EVERY: Duration = Duration::from_secs(60);
/// Certificates that are read of a file.
const MOST: usize = 16;
/// Bytes of a file, at most.
const MOST_BYTES: u64 = 1 << 20;

/// Failure to have a certificate that could be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    /// A file is not there, or too large.
    #[error("cannot read {path:?}")]
    Read {
        /// Which one.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// There is no certificate, or no key, in PEM.
    #[error("{0:?} has none in PEM")]
    Pem(PathBuf),
    /// They do not belong together, or are of a kind that is not known.
    #[error("certificate and key cannot be served")]
    Pair(#[source] rustls::Error),
    /// None could be made.
    #[error("no certificate made")]
    Made(#[source] rcgen::Error),
}

/// Certificate as it is served.
pub(super) struct Certificate {
    files: Option<(PathBuf, PathBuf)>,
    acceptor: TlsAcceptor,
    read: Option<Instant>,
}

impl Certificate {
    /// Takes it from files, certificate and key, or makes one for the node of this name.
    pub(super) fn new(files: Option<(PathBuf, PathBuf)>, node: &str) -> Result<Self, CertificateError> {
        let acceptor = match &files {
            Some(files) => from_files(files)?,
            None => made(node)?,
        };
        Ok(Self { files, acceptor, read: None })
    }

    /// Gives it for the next connection. Files that cannot be read change nothing.
    pub(super) fn acceptor(&mut self, now: Instant) -> TlsAcceptor {
        let due = self.read.is_none_or(|read| now.saturating_duration_since(read) >= READ_EVERY);
        if let Some(files) = self.files.as_ref().filter(|_| due) {
            self.read = Some(now);
            match from_files(files) {
                Ok(acceptor) => self.acceptor = acceptor,
                Err(error) => {
                    warn!(error = chain(&error), "Certificate of the metrics not read, the one before stays");
                }
            }
        }
        self.acceptor.clone()
    }
}

fn from_files((certificate, key): &(PathBuf, PathBuf)) -> Result<TlsAcceptor, CertificateError> {
    let read = |path: &PathBuf| {
        let failed = |source| CertificateError::Read { path: path.clone(), source };
        if fs::metadata(path).map_err(failed)?.len() > MOST_BYTES {
            return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
        }
        fs::read(path).map_err(failed)
    };
    let text = read(certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&text).take(MOST).filter_map(Result::ok).collect();
    if chain.is_empty() {
        return Err(CertificateError::Pem(certificate.clone()));
    }
    let key_of = PrivateKeyDer::from_pem_slice(&read(key)?);
    acceptor(chain, key_of.map_err(|_| CertificateError::Pem(key.clone()))?)
}

/// Makes one whose key is nowhere but in memory, so it is another one after each start.
fn made(node: &str) -> Result<TlsAcceptor, CertificateError> {
    let name = |name: &str| CertificateParams::new([name.to_owned()]);
    // A node whose name is none for a certificate is called as the program.
    let mut parameters = name(node).or_else(|_| name("berthd")).map_err(CertificateError::Made)?;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(CertificateError::Made)?;
    let certificate = parameters.self_signed(&key).map_err(CertificateError::Made)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    acceptor(vec![certificate.der().clone()], key.into())
}

fn acceptor(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, CertificateError> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .map_err(CertificateError::Pair)?;
    Ok(Arc::new(config).into())
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};

    use super::*;

    fn pem(label: &str, der: &[u8]) -> String {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
    }

    fn written(folder: &std::path::Path, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
        let files = (folder.join("tls.crt"), folder.join("tls.key"));
        fs::write(&files.0, pem("CERTIFICATE", certificate.der())).unwrap();
        fs::write(&files.1, pem("PRIVATE KEY", &key.serialize_der())).unwrap();
        files
    }

    #[test]
    fn one_is_made_for_any_node() {
        for node in ["node-a", "", "a node", "nöde", "10.0.0.1"] {
            assert!(Certificate::new(None, node).is_ok(), "{node:?}");
        }
    }

    #[test]
    fn files_are_read_again_and_what_is_broken_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = written(folder.path(), "a");
        let mut certificate = Certificate::new(Some(files.clone()), "n").unwrap();
        let begin = Instant::now();
        let first = certificate.acceptor(begin);
        let same = |one: &TlsAcceptor, other: &TlsAcceptor| Arc::ptr_eq(one.config(), other.config());
        assert!(same(&first, &certificate.acceptor(begin + READ_EVERY / 2)), "not read for each connection");
        fs::write(&files.1, "no key").unwrap();
        assert!(same(&first, &certificate.acceptor(begin + READ_EVERY)));
        written(folder.path(), "b");
        assert!(!same(&first, &certificate.acceptor(begin + READ_EVERY * 2)));
    }

    #[test]
    fn what_cannot_be_served_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = written(folder.path(), "a");
        let error = |files| chain(&Certificate::new(Some(files), "n").err().unwrap());
        let missing = folder.path().join("missing");
        assert!(error((missing.clone(), files.1.clone())).contains("missing"));
        assert!(error((files.0.clone(), files.0.clone())).contains("tls.crt"));
        let other = KeyPair::generate().unwrap().serialize_der();
        fs::write(&missing, pem("PRIVATE KEY", &other)).unwrap();
        assert!(error((files.0, missing)).contains("cannot be served"));
    }
}
