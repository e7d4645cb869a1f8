//! The two kinds of webhook configuration, and their entries.

use std::fmt;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ValidatingWebhook, ValidatingWebhookConfiguration,
};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Desired,
    precedence::{Named, brought},
};

/// One of the two kinds of configuration.
pub(in crate::admission) trait Configuration:
    Resource<DynamicType = ()>
    + Clone
    + PartialEq
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Its place among the two.
    const PLACE: usize;
    /// Word for the work of its entries on an object.
    const NAME: &'static str;
    /// Its entries.
    type Entry: Named + Send + Sync + 'static;

    /// Entries of this kind among those that are wanted.
    fn wanted(desired: &mut Desired) -> &mut Vec<Self::Entry>;
    /// Returns a copy with the entries that are wanted.
    fn with(&self, desired: &Desired) -> Self;
    /// Returns a copy with what has changed since then, if there is anything.
    fn bring(&self, before: &Desired, now: &Desired) -> Option<Self>;
    /// Says whether all entries are asked by this bundle.
    fn is_asked_by(&self, bundle: &[u8]) -> bool;
    /// Returns this bundle where all entries are asked by it, and an empty one otherwise.
    fn bundle_of_all(&self, bundle: &[u8]) -> Vec<u8> {
        if self.is_asked_by(bundle) { bundle.to_vec() } else { Vec::new() }
    }
    /// Says whether it has them already.
    fn stands(&self, desired: &Desired) -> bool;
    /// Entries that stand in it and change objects.
    fn mutating(&self) -> &[MutatingWebhook];
    /// Says whether both have the same entries.
    fn same(&self, other: &Self) -> bool;
    /// Entries that stand in it.
    fn entries(&self) -> &[Self::Entry];
    /// Returns a copy with these entries.
    fn holding(&self, entries: Vec<Self::Entry>) -> Self;
}

macro_rules! configuration {
    ($kind:ty, $entry:ty, $place:literal, $field:ident, $mutating:expr) => {
        impl Configuration for $kind {
            const PLACE: usize = $place;
            const NAME: &'static str = stringify!($field);
            type Entry = $entry;

            fn wanted(desired: &mut Desired) -> &mut Vec<$entry> {
                &mut desired.$field
            }

            fn with(&self, desired: &Desired) -> Self {
                Self { webhooks: Some(desired.$field.clone()), ..self.clone() }
            }

            fn bring(&self, before: &Desired, now: &Desired) -> Option<Self> {
                let standing = self.webhooks.as_deref().unwrap_or_default();
                let entries = brought(&before.$field, &now.$field, standing)?;
                Some(Self { webhooks: Some(entries), ..self.clone() })
            }

            fn is_asked_by(&self, bundle: &[u8]) -> bool {
                self.webhooks.iter().flatten().all(|entry| entry.bundle() == Some(bundle))
            }

            fn stands(&self, desired: &Desired) -> bool {
                // The API server shows no entries as none at all.
                self.webhooks.as_deref().unwrap_or_default() == desired.$field
            }

            fn mutating(&self) -> &[MutatingWebhook] {
                let mutating: fn(&Self) -> &[MutatingWebhook] = $mutating;
                mutating(self)
            }

            fn same(&self, other: &Self) -> bool {
                self.entries() == other.entries()
            }

            fn entries(&self) -> &[Self::Entry] {
                self.webhooks.as_deref().unwrap_or_default()
            }

            fn holding(&self, entries: Vec<Self::Entry>) -> Self {
                Self { webhooks: Some(entries), ..self.clone() }
            }
        }
    };
}

configuration!(MutatingWebhookConfiguration, MutatingWebhook, 0, mutating, |it| it.entries());
configuration!(ValidatingWebhookConfiguration, ValidatingWebhook, 1, validating, |_| &[]);
