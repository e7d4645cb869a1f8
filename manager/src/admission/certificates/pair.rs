//! A serving certificate with its key, and the CAs that it is checked against: read, checked, and made.
//!
//! The check is the one that a client makes, by the same code, at any time: so what is kept is what the API
//! server will take, and "will it still be good in three months" needs no dates.

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use berth_proto::text::cut;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    sign::CertifiedKey,
};

/// A made certificate, and its CA, are good for so many days.
pub(super) const DAYS: i64 = 365;
/// Time before the end of a certificate at which the next one is made.
pub(super) const RENEW_BEFORE: Duration = Duration::from_secs(90 * 24 * 3600);
/// The most CAs that a bundle has: the one in use, the next one, and one from before.
const MOST_CAS: usize = 3;
/// The most certificates that are read of one text.
const MOST_READ: usize = 64;

/// Error of a certificate that cannot be served, or not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// There is none, or no PEM.
    #[error("{0} has no certificate or key in PEM")]
    Pem(&'static str),
    /// The key is another certificate's, or of a kind that is not known.
    #[error("the key is not the certificate's")]
    Key(#[source] rustls::Error),
    /// No CA of the bundle signed it for this name and time.
    #[error("the certificate is not good for {name}")]
    Check {
        /// Name that it is to be good for.
        name: String,
        /// Cause.
        #[source]
        source: rustls::Error,
    },
    /// There is no name that it could be good for.
    #[error("{0:?} is no DNS name")]
    Name(String),
    /// It could not be made.
    #[error("a certificate could not be made")]
    Made(#[source] rcgen::Error),
    /// There is no date for its end.
    #[error("the clock is out of range")]
    Clock,
}

/// New serving certificate, and the only one that its CA ever signs: the key of the CA is forgotten at once.
pub(super) struct Made {
    /// In PEM, as all of them.
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) authority: Vec<u8>,
}

/// Serving certificate with its key, as it is served.
pub(super) fn read(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, Unusable> {
    let chain = certificates(certificate);
    if chain.is_empty() {
        return Err(Unusable::Pem("the certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Unusable::Pem("the key"))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map(Arc::new).map_err(Unusable::Key)
}

/// Certificates of a PEM text; what is none is left out.
pub(super) fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).take(MOST_READ).filter_map(Result::ok).collect()
}

/// Checks a serving certificate as a client with this bundle would, at a time.
pub(super) fn check(
    served: &CertifiedKey,
    bundle: &[CertificateDer<'static>],
    name: &str,
    at: Timestamp,
) -> Result<(), Unusable> {
    let wrong = |source| Unusable::Check { name: name.to_owned(), source };
    let server = ServerName::try_from(name.to_owned()).map_err(|_| Unusable::Name(name.to_owned()))?;
    let (leaf, between) = served.cert.split_first().ok_or(Unusable::Pem("the certificate"))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.iter().cloned());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), ring::default_provider().into());
    let verifier = verifier.build().map_err(|error| wrong(rustls::Error::General(error.to_string())))?;
    let seconds = u64::try_from(at.as_second()).map_err(|_| Unusable::Clock)?;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_server_cert(leaf, between, &server, &[], at).map(drop).map_err(wrong)
}

/// Bundle of those of the CAs that the certificate is checked against, and the new one.
pub(super) fn overlapping(
    served: Option<&CertifiedKey>,
    bundle: &[CertificateDer<'static>],
    new: &[u8],
    name: &str,
    now: Timestamp,
) -> Vec<u8> {
    let still = |authority: &&CertificateDer<'static>| {
        served.is_some_and(|served| check(served, &[(*authority).clone()], name, now).is_ok())
    };
    let mut kept: Vec<_> = bundle.iter().filter(still).take(MOST_CAS - 1).collect();
    kept.dedup();
    let mut text: Vec<u8> = kept.iter().flat_map(|authority| pem("CERTIFICATE", authority)).collect();
    text.extend_from_slice(new);
    text
}

/// Makes a serving certificate for these names, and a CA for it.
pub(super) fn make(names: &[String], now: Timestamp) -> Result<Made, Unusable> {
    // API servers whose clock is behind take it too.
    let begin = now.checked_sub(SignedDuration::from_hours(24)).map_err(|_| Unusable::Clock)?;
    let end = now.checked_add(SignedDuration::from_hours(24 * DAYS)).map_err(|_| Unusable::Clock)?;
    let day = |at: Timestamp| {
        let date = at.to_zoned(TimeZone::UTC).date();
        date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let parameters = |name: &str, names: Vec<String>| {
        let mut parameters = CertificateParams::new(names).map_err(Unusable::Made)?;
        (parameters.not_before, parameters.not_after) = (day(begin), day(end));
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        Ok(parameters)
    };
    // The API server finds a CA in its bundle by the name.
    let name = format!("berth-admission-ca-{}", now.as_millisecond());
    let mut authority = parameters(&name, Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate().map_err(Unusable::Made)?;
    let authority_certificate = authority.self_signed(&authority_key).map_err(Unusable::Made)?;
    let first = names.first().map(String::as_str).unwrap_or_default();
    // 64 letters are the most that a common name has.
    let mut leaf = parameters(cut(first, 64), names.to_vec())?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(Unusable::Made)?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = leaf.signed_by(&key, &issuer).map_err(Unusable::Made)?;
    Ok(Made {
        certificate: pem("CERTIFICATE", certificate.der()),
        key: pem("PRIVATE KEY", &key.serialize_der()),
        authority: pem("CERTIFICATE", authority_certificate.der()),
    })
}

/// A text in PEM.
pub(super) fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n").into_bytes();
    for line in text.as_bytes().chunks(64) {
        pem.extend_from_slice(line);
        pem.push(b'\n');
    }
    pem.extend_from_slice(format!("-----END {label}-----\n").as_bytes());
    pem
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NAME: &str = "berth-manager.berth-system.svc";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn made(now: &str) -> (Arc<CertifiedKey>, Vec<CertificateDer<'static>>) {
        let made = make(&[NAME.to_owned()], at(now)).unwrap();
        (read(&made.certificate, &made.key).unwrap(), certificates(&made.authority))
    }

    #[rstest]
    #[case::now(NAME, "2026-07-02T10:00:00Z", true)]
    #[case::behind("berth-manager.berth-system.svc", "2026-07-01T11:00:00Z", true)]
    #[case::long_before(NAME, "2026-06-29T10:00:00Z", false)]
    #[case::near_its_end(NAME, "2027-07-01T10:00:00Z", true)]
    #[case::after_it(NAME, "2027-07-02T10:00:00Z", false)]
    #[case::another_name("other.berth-system.svc", "2026-07-02T10:00:00Z", false)]
    #[case::no_name("", "2026-07-02T10:00:00Z", false)]
    #[case::before_the_epoch(NAME, "1969-07-02T10:00:00Z", false)]
    fn good_for_its_name_and_time(#[case] name: &str, #[case] when: &str, #[case] good: bool) {
        let (served, bundle) = made("2026-07-02T10:00:00Z");
        assert_eq!(check(&served, &bundle, name, at(when)).is_ok(), good);
    }

    #[test]
    fn a_bundle_has_who_signed() {
        let now = "2026-07-02T10:00:00Z";
        let ((served, own), (_, other)) = (made(now), made("2026-07-03T10:00:00Z"));
        assert!(check(&served, &other, NAME, at(now)).is_err());
        assert!(check(&served, &[], NAME, at(now)).is_err());
        assert!(check(&served, &[other.clone(), own.clone()].concat(), NAME, at(now)).is_ok());
        let new = pem("CERTIFICATE", &other[0]);
        // Those that nothing is checked against any more go.
        let third = made("2026-07-01T10:00:00Z").1;
        let bundle = overlapping(Some(&served), &[third, own.clone()].concat(), &new, NAME, at(now));
        assert_eq!(certificates(&bundle), [own.clone(), other.clone()].concat());
        assert_eq!(certificates(&overlapping(None, &own, &new, NAME, at(now))), other);
    }

    #[test]
    fn what_is_none_is_told_apart() {
        let one = make(&[NAME.to_owned()], at("2026-07-02T10:00:00Z")).unwrap();
        let two = make(&[NAME.to_owned()], at("2026-07-02T10:00:00Z")).unwrap();
        assert!(read(&one.certificate, &one.key).is_ok());
        assert!(matches!(read(&one.certificate, &two.key), Err(Unusable::Key(_))));
        assert!(matches!(read(b"", &one.key), Err(Unusable::Pem("the certificate"))));
        assert!(matches!(read(&one.certificate, b"x"), Err(Unusable::Pem("the key"))));
    }
}
