//! Where a request goes, and where a redirect may lead.

use ::http::{
    HeaderValue, Uri,
    uri::{Authority, Scheme},
};

/// Where to ask, and what for. Its path may hold a secret and is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(super) https: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Begins with `/`; valid in a request line.
    pub(super) path: String,
}

/// Which redirects are followed: none of them to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// To any port of the host that was dialled, as the kubelet does.
    AnyPort,
    /// To the port that was dialled and no other, under its own name or the one that `Host` gave it.
    SamePort,
}

// === impl Target ===

impl Target {
    /// `host` is an address or a name, without brackets.
    pub(crate) fn new(https: bool, host: String, port: u16, path: &str) -> Self {
        Self { https, host, port, path: encoded(path) }
    }

    /// `Host`, with the port even where it is the usual one.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Returns where this leads; `None` for where it must not be followed to. `named` is the `Host` that was
    /// sent.
    pub(super) fn redirected(
        &self,
        location: &HeaderValue,
        follow: Follow,
        named: Option<&HeaderValue>,
    ) -> Option<Self> {
        let location = location.to_str().ok()?;
        if location.starts_with("//") {
            return None;
        }
        let Ok(uri) = location.parse::<Uri>().map(Uri::into_parts) else {
            return Some(Self { path: self.beside(location), ..self.clone() });
        };
        let path = uri.path_and_query.as_ref().map_or("/", |path| path.as_str());
        match (uri.scheme, uri.authority) {
            (Some(scheme), Some(authority)) => {
                let https = scheme == Scheme::HTTPS;
                let (host, port) = parts(&authority, https);
                let own = host.eq_ignore_ascii_case(&self.host)
                    && (https || scheme == Scheme::HTTP)
                    && (follow == Follow::AnyPort || port == self.port);
                if own {
                    return Some(Self { https, host: self.host.clone(), port, path: encoded(path) });
                }
                let by_name = follow == Follow::SamePort
                    && https == self.https
                    && named.is_some_and(|named| self.is_called(named, host, port));
                by_name.then(|| Self { path: encoded(path), ..self.clone() })
            }
            _ if location.starts_with('/') => Some(Self { path: encoded(path), ..self.clone() }),
            _ => Some(Self { path: self.beside(location), ..self.clone() }),
        }
    }

    /// Tells whether this `Host` stands for the host and port that are named.
    fn is_called(&self, named: &HeaderValue, host: &str, port: u16) -> bool {
        let Ok(named) = Authority::try_from(named.as_bytes()) else { return false };
        let (name, named_port) = parts(&named, self.https);
        name.eq_ignore_ascii_case(host) && named_port == port
    }

    /// A path relative to this one.
    fn beside(&self, relative: &str) -> String {
        let path = self.path.split('?').next().unwrap_or("/");
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        encoded(&format!("{directory}/{relative}"))
    }
}

/// The host that a redirect names; what else is in it may be a secret.
pub(super) fn host_of(location: &HeaderValue) -> Option<String> {
    let location = location.to_str().ok()?;
    let absolute = match location.starts_with("//") {
        true => format!("http:{location}"),
        false => location.to_owned(),
    };
    let authority = absolute.parse::<Uri>().ok()?.into_parts().authority?;
    Some(match authority.port_u16() {
        Some(port) => format!("{}:{port}", authority.host()),
        None => authority.host().to_owned(),
    })
}

/// Host, without brackets, and port.
fn parts(authority: &Authority, https: bool) -> (&str, u16) {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    (host, authority.port_u16().unwrap_or(if https { 443 } else { 80 }))
}

/// A path that can stand in a request line: from `/`, without a fragment, other bytes as `%XX`.
pub(super) fn encoded(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    let mut encoded = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        encoded.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                encoded.push_str(&format!("%{byte:02X}"));
            }
            b'!'..=b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
