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
    fn of(desired: &Desired) -> &[Self::Entry];
    /// The same, to be changed.
    fn wanted(desired: &mut Desired) -> &mut Vec<Self::Entry>;
    /// Entries that stand in it.
    fn entries(&self) -> &[Self::Entry];
    /// Returns a copy with these entries.
    fn holding(&self, entries: Vec<Self::Entry>) -> Self;
    /// Entries that stand in it and change objects.
    fn mutating(&self) -> &[MutatingWebhook];

    /// Returns a copy with the entries that are wanted.
    fn with(&self, desired: &Desired) -> Self {
        self.holding(Self::of(desired).to_vec())
    }
    /// Returns a copy with what has changed since then, if there is anything.
    fn bring(&self, before: &Desired, now: &Desired) -> Option<Self> {
        brought(Self::of(before), Self::of(now), self.entries()).map(|entries| self.holding(entries))
    }
    /// Says whether all entries are asked by this bundle.
    fn is_asked_by(&self, bundle: &[u8]) -> bool {
        self.entries().iter().all(|entry| entry.bundle() == Some(bundle))
    }
    /// Returns this bundle where all entries are asked by it, and an empty one otherwise.
    fn bundle_of_all(&self, bundle: &[u8]) -> Vec<u8> {
        if self.is_asked_by(bundle) { bundle.to_vec() } else { Vec::new() }
    }
    /// Says whether it has them already.
    fn stands(&self, desired: &Desired) -> bool {
        self.entries() == Self::of(desired)
    }
    /// Says whether both have the same entries.
    fn same(&self, other: &Self) -> bool {
        self.entries() == other.entries()
    }
}

macro_rules! configuration {
    ($kind:ty, $entry:ty, $place:literal, $field:ident, $mutating:expr) => {
        impl Configuration for $kind {
            const PLACE: usize = $place;
            const NAME: &'static str = stringify!($field);
            type Entry = $entry;

            fn of(desired: &Desired) -> &[$entry] {
                &desired.$field
            }

            fn wanted(desired: &mut Desired) -> &mut Vec<$entry> {
                &mut desired.$field
            }

            fn entries(&self) -> &[$entry] {
                // The API server shows no entries as none at all.
                self.webhooks.as_deref().unwrap_or_default()
            }

            fn holding(&self, entries: Vec<$entry>) -> Self {
                Self { webhooks: Some(entries), ..self.clone() }
            }

            fn mutating(&self) -> &[MutatingWebhook] {
                let mutating: fn(&Self) -> &[MutatingWebhook] = $mutating;
                mutating(self)
            }
        }
    };
}

configuration!(MutatingWebhookConfiguration, MutatingWebhook, 0, mutating, |it| it.entries());
configuration!(ValidatingWebhookConfiguration, ValidatingWebhook, 1, validating, |_| &[]);
