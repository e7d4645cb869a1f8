//! Mark of a revision: what was decided on the images that it brings ([`crate::predownload`]).

use crate::selector::Labels;

/// Label of a revision: jobs were made for its images.
pub(crate) const CREATED_LABEL: &str = "apps.kruise.io/pre-predownload-created";
/// Label of a revision: nothing is pulled ahead of it.
pub(crate) const IGNORED_LABEL: &str = "apps.kruise.io/image-predownload-ignored";

/// Mark of a revision, by one of the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Jobs were made.
    Created,
    /// It was decided that there are none.
    Ignored,
}

impl Mark {
    /// Reads the labels of a revision.
    pub(crate) fn of(labels: Option<&Labels>) -> Option<Self> {
        let has = |key| labels.is_some_and(|labels| labels.contains_key(key));
        let ignored = has(IGNORED_LABEL).then_some(Self::Ignored);
        if has(CREATED_LABEL) { Some(Self::Created) } else { ignored }
    }
}
