//! YAML scalars that Kubernetes accepts in more than one form.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A port by number or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IntOrName {
    /// By number.
    Int(i64),
    /// The name of one of the container's ports.
    Name(String),
}

impl<'de> Deserialize<'de> for IntOrName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = IntOrName;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port number or a port name")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<IntOrName, E> {
                Ok(IntOrName::Int(value))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<IntOrName, E> {
                i64::try_from(value).map(IntOrName::Int).map_err(|_| E::custom("port number out of range"))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<IntOrName, E> {
                Ok(IntOrName::Name(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
