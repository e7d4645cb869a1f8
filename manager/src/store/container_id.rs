//! A container's ID in little space. There is one for each container of the cluster, and nearly all look
//! alike: `containerd://` and 64 hexadecimal digits, 77 bytes that say 33.

use std::fmt;

use crate::hex::digit;

/// The schemes whose IDs are 64 lowercase hexadecimal digits.
const SCHEMES: [&str; 3] = ["containerd://", "cri-o://", "docker://"];

/// The ID of a container's instance, as a pod's status has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ContainerId {
    /// One of the known schemes and its digits.
    Hex { scheme: u8, digits: [u8; 32] },
    /// Any other, as it is.
    Other(Box<str>),
}

impl From<&str> for ContainerId {
    fn from(id: &str) -> Self {
        for (scheme, prefix) in (0..).zip(SCHEMES) {
            if let Some(digits) = id.strip_prefix(prefix).and_then(parse) {
                return Self::Hex { scheme, digits };
            }
        }
        Self::Other(id.into())
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hex { scheme, digits } => {
                f.write_str(SCHEMES[usize::from(*scheme)])?;
                digits.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Other(id) => f.write_str(id),
        }
    }
}

/// Parses only what is written out again exactly as it was.
fn parse(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    let mut digits = [0; 32];
    if text.len() != 2 * digits.len() {
        return None;
    }
    for (byte, pair) in digits.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::containerd(&format!("containerd://{}", "0f".repeat(32)), true)]
    #[case::cri_o(&format!("cri-o://{}", "a9".repeat(32)), true)]
    #[case::upper_case(&format!("containerd://{}", "0F".repeat(32)), false)]
    #[case::too_short("containerd://0f", false)]
    #[case::not_ascii(&format!("containerd://{}", "é".repeat(32)), false)]
    #[case::unknown_scheme(&format!("pouch://{}", "0f".repeat(32)), false)]
    #[case::empty("", false)]
    fn is_written_out_as_it_was(#[case] text: &str, #[case] small: bool) {
        let id = ContainerId::from(text);
        assert_eq!(id.to_string(), text);
        assert_eq!(matches!(id, ContainerId::Hex { .. }), small);
    }
}
