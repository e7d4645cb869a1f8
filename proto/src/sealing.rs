//! Credentials sealed to one node: the manager writes them where every node can read, and one can open them.
//!
//! HPKE (RFC 9180) in its base mode with X25519, HKDF-SHA256 and ChaCha20-Poly1305: an ephemeral key for each
//! seal, a standard in place of a format of ours. The node, the wish and the image are authenticated with it,
//! so a copy in the object of another node, of another wish or for another image opens nothing. Whoever can
//! write the status of a node's `NodeImage` could name a key of its own there: the policies of `deploy/`
//! leave that to the agent of that node.
//!
//! A seal is base64 of `encapsulated key (32 bytes) || ciphertext`; the plaintext is JSON, see
//! [`RegistryCredential`].

use base64::{Engine, engine::general_purpose::STANDARD};
use hpke::{
    Deserializable, Kem as _, OpModeR, OpModeS, Serializable, aead::ChaCha20Poly1305, kdf::HkdfSha256,
    kem::X25519HkdfSha256, single_shot_open, single_shot_seal,
};
use serde::{Deserialize, Serialize};

type Kem = X25519HkdfSha256;
type Kdf = HkdfSha256;
type Aead = ChaCha20Poly1305;

/// Part of every key: what is sealed for this purpose opens for no other.
const INFO: &[u8] = b"berth.dev/v1alpha1 registry credential";
const KEY_BYTES: usize = 32;

/// Content of a seal: the fields of the CRI's `AuthConfig`. It has no `Debug`, so that it cannot be logged by
/// mistake.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryCredential {
    /// With `password`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// With `username`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub password: String,
    /// A token for which the registry gives a token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity_token: String,
    /// A bearer token that the registry itself takes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub registry_token: String,
}

/// Purpose of a seal.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The node's name.
    pub node: &'a str,
    /// `NodeImage.status.desiredImages[].uid`.
    pub wish: &'a str,
    /// The image, as it was given.
    pub image: &'a str,
}

/// The private key of a node. It has no `Debug`.
pub struct NodeKey(<Kem as hpke::Kem>::PrivateKey);

/// The public key of a node, as `NodeImage.status.sealingKey` has it.
#[derive(Clone)]
pub struct SealingKey(<Kem as hpke::Kem>::PublicKey);

/// It could not be sealed or opened. Says nothing of what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Not a key.
    #[error("not an X25519 key in base64")]
    Key,
    /// Not a seal at all.
    #[error("not a sealed credential")]
    Form,
    /// Sealed to another key, or for another node, wish or image.
    #[error("sealed to another key, or for another node, wish or image")]
    Closed,
}

impl NodeKey {
    /// A new one, from the system's random numbers.
    pub fn generate() -> Self {
        Self(Kem::gen_keypair().0)
    }

    /// Makes it from what [`NodeKey::to_bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealError> {
        <Kem as hpke::Kem>::PrivateKey::from_bytes(bytes).map(Self).map_err(|_| SealError::Key)
    }

    /// Bytes by which it is kept. Whoever has these opens everything sealed to the node.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes().to_vec()
    }

    /// Returns the key that is published.
    pub fn sealing_key(&self) -> SealingKey {
        SealingKey(Kem::sk_to_pk(&self.0))
    }

    /// Opens a seal.
    pub fn open(&self, sealed: &str, context: Context<'_>) -> Result<RegistryCredential, SealError> {
        let bytes = STANDARD.decode(sealed).map_err(|_| SealError::Form)?;
        let (key, text) = bytes.split_at_checked(KEY_BYTES).ok_or(SealError::Form)?;
        let key = <Kem as hpke::Kem>::EncappedKey::from_bytes(key).map_err(|_| SealError::Form)?;
        let plain = single_shot_open::<Aead, Kdf, Kem>(
            &OpModeR::Base,
            &self.0,
            &key,
            INFO,
            text,
            &context.authenticated(),
        )
        .map_err(|_| SealError::Closed)?;
        serde_json::from_slice(&plain).map_err(|_| SealError::Form)
    }
}

impl SealingKey {
    /// Reads a key as it is published.
    pub fn parse(text: &str) -> Result<Self, SealError> {
        let bytes = STANDARD.decode(text).map_err(|_| SealError::Key)?;
        <Kem as hpke::Kem>::PublicKey::from_bytes(&bytes).map(Self).map_err(|_| SealError::Key)
    }

    /// Text by which it is published.
    pub fn encoded(&self) -> String {
        STANDARD.encode(self.0.to_bytes())
    }

    /// Seals a credential, differently each time.
    pub fn seal(&self, credential: &RegistryCredential, context: Context<'_>) -> Result<String, SealError> {
        let plain = serde_json::to_vec(credential).map_err(|_| SealError::Form)?;
        let (key, text) = single_shot_seal::<Aead, Kdf, Kem>(
            &OpModeS::Base,
            &self.0,
            INFO,
            &plain,
            &context.authenticated(),
        )
        .map_err(|_| SealError::Key)?;
        let mut bytes = key.to_bytes().to_vec();
        bytes.extend(text);
        Ok(STANDARD.encode(bytes))
    }
}

impl Context<'_> {
    /// Bytes that the seal is bound to. None of the three can have a NUL, so no two contexts look alike.
    fn authenticated(&self) -> Vec<u8> {
        [self.node, self.wish, self.image].join("\0").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: Context<'_> = Context { node: "a", wish: "u-1", image: "example.com/app:1" };

    fn credential() -> RegistryCredential {
        RegistryCredential {
            username: "user".into(),
            password: "pass\n\u{e4}".into(),
            identity_token: "identity".into(),
            registry_token: "registry".into(),
        }
    }

    #[test]
    fn the_node_opens_what_is_sealed_to_it() {
        let node = NodeKey::from_bytes(&NodeKey::generate().to_bytes()).unwrap();
        let published = SealingKey::parse(&node.sealing_key().encoded()).unwrap();
        let sealed = published.seal(&credential(), CONTEXT).unwrap();
        assert!(node.open(&sealed, CONTEXT).unwrap() == credential());
        assert_ne!(sealed, published.seal(&credential(), CONTEXT).unwrap(), "no two seals are alike");
        for word in ["user", "pass", "identity"] {
            assert!(!STANDARD.decode(&sealed).unwrap().windows(word.len()).any(|at| at == word.as_bytes()));
        }
    }

    #[test]
    fn nobody_else_and_nothing_else() {
        let (node, other) = (NodeKey::generate(), NodeKey::generate());
        let sealed = node.sealing_key().seal(&credential(), CONTEXT).unwrap();
        let refused = |key: &NodeKey, context| key.open(&sealed, context).err();
        assert_eq!(refused(&other, CONTEXT), Some(SealError::Closed));
        assert_eq!(refused(&node, Context { node: "b", ..CONTEXT }), Some(SealError::Closed));
        assert_eq!(refused(&node, Context { wish: "u-2", ..CONTEXT }), Some(SealError::Closed));
        assert_eq!(
            refused(&node, Context { image: "evil.example/app:1", ..CONTEXT }),
            Some(SealError::Closed)
        );
        let mut bytes = STANDARD.decode(&sealed).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(node.open(&STANDARD.encode(bytes), CONTEXT).err(), Some(SealError::Closed));
        for garbage in ["", "AAAA", "not base64"] {
            assert_eq!(node.open(garbage, CONTEXT).err(), Some(SealError::Form), "{garbage}");
        }
        assert!(SealingKey::parse("AAAA").is_err());
    }
}
