//! Name of a Node in the client certificate of its kubelet: `CN=system:node:NAME`, `O=system:nodes`. Nothing
//! else of the certificate is read, and nothing is verified: the API server does that.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Map, Value};
use x509_parser::parse_x509_certificate;

use super::super::host::Host;
use super::super::places::folder_of;
use super::kubelet;

const USER: &str = "system:node:";
const GROUP: &str = "system:nodes";
/// The longest name of a Node.
const LONGEST: usize = 253;

/// Reads the name that a kubeconfig's client certificate is for; `None` where it has no such certificate, as
/// with a token or a program that gives one, or where that cannot be read.
pub(super) fn of_kubeconfig(host: &Host, path: &str) -> Option<String> {
    let config = kubelet::yaml(host, path).ok()?;
    let context = named(&config, "contexts", config.get("current-context")?.as_str()?)?;
    let user = &named(&config, "users", context["context"]["user"].as_str()?)?["user"];
    let data = user["client-certificate-data"].as_str().filter(|data| !data.is_empty());
    let pem = match (data, user["client-certificate"].as_str()) {
        (Some(data), _) => BASE64_STANDARD.decode(data.trim()).ok()?,
        (None, Some(file)) if file.starts_with('/') => host.read(file).ok()??.into_bytes(),
        (None, Some(file)) => host.read(&format!("{}/{file}", folder_of(path))).ok()??.into_bytes(),
        (None, None) => return None,
    };
    node(&pem)
}

/// Finds an entry of a list by its name.
fn named<'a>(config: &'a Map<String, Value>, list: &str, name: &str) -> Option<&'a Value> {
    config.get(list)?.as_array()?.iter().find(|one| one["name"] == name)
}

/// Reads the name in the first certificate of a file.
fn node(pem: &[u8]) -> Option<String> {
    node_of(&CertificateDer::from_pem_slice(pem).ok()?)
}

/// Reads the name in a certificate.
fn node_of(der: &[u8]) -> Option<String> {
    let (_, certificate) = parse_x509_certificate(der).ok()?;
    let subject = certificate.subject();
    let is_node = subject.iter_organization().any(|group| group.as_str().is_ok_and(|group| group == GROUP));
    let name = subject.iter_common_name().last()?.as_str().ok()?.strip_prefix(USER)?;
    (is_node && (1..=LONGEST).contains(&name.len())).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = include_str!("node.pem");

    #[test]
    fn only_a_node_has_a_name_there() {
        let named = |pem: &str| node(pem.as_bytes());
        assert_eq!(named(NODE).as_deref(), Some("ip-10-0-0-1.ec2.internal"));
        // As the kubelet keeps it: with its key after it.
        let key = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
        assert_eq!(named(&format!("{NODE}{key}")).as_deref(), Some("ip-10-0-0-1.ec2.internal"));
        // `O=system:masters`, `CN=system:node:node-b`.
        assert_eq!(named(include_str!("master.pem")), None);
        assert_eq!((named(""), named("no certificate"), named(key)), (None, None, None));
    }

    #[test]
    fn a_certificate_that_is_cut_off_or_changed_is_none() {
        let whole = CertificateDer::from_pem_slice(NODE.as_bytes()).unwrap();
        let at = whole.windows(USER.len()).rposition(|part| part == USER.as_bytes()).unwrap();
        let end = at + "system:node:ip-10-0-0-1.ec2.internal".len();
        for length in 0..whole.len() {
            assert_eq!(node_of(&whole[..length]), None, "{length}");
        }
        // Whatever a length says, nothing beyond is read.
        for index in 0..end {
            for byte in [0x00, 0x80, 0x83, 0x84, 0xff] {
                let mut changed = whole.to_vec();
                changed[index] = byte;
                let _ = node_of(&changed);
            }
        }
    }

    #[test]
    fn of_a_kubeconfig_the_user_of_its_context_counts() {
        let tree = super::super::tests::Tree::of(&[("/etc/k/pki/node.pem", NODE)]);
        let data = BASE64_STANDARD.encode(NODE);
        let found = Some("ip-10-0-0-1.ec2.internal");
        for (user, expected) in [
            ("client-certificate: /etc/k/pki/node.pem", found),
            ("client-certificate: pki/node.pem", found),
            (&*format!("client-certificate-data: {data}"), found),
            ("client-certificate: /etc/k/none.pem", None),
            ("client-certificate-data: '%'", None),
            ("token: t", None),
        ] {
            let config = format!(
                "current-context: here\ncontexts:\n- name: other\n  context: {{ user: other }}\n- name: here\n  \
                 context: {{ user: own }}\nusers:\n- name: other\n  user: {{}}\n- name: own\n  user:\n    {user}\n"
            );
            tree.write("/etc/k/kubelet.conf", &config);
            assert_eq!(of_kubeconfig(&tree.host(), "/etc/k/kubelet.conf").as_deref(), expected, "{user}");
        }
        for config in ["kind: Config\n", "- a\n", "current-context: here\n"] {
            tree.write("/etc/k/kubelet.conf", config);
            assert_eq!(of_kubeconfig(&tree.host(), "/etc/k/kubelet.conf"), None, "{config}");
        }
    }
}
