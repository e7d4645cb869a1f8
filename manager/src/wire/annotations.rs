//! Annotations of watched objects that are read; all others are skipped by the parser.

use berth_base::metadata::ReadAnnotations;
use berth_sidecarset::names;

use crate::store::{OPERATIONS, TOTAL};

/// Images that the containers had before an upgrade; a JSON object by set.
pub(super) const STATE: &str = "kruise.io/sidecarset-inplace-update-state";

/// Images that the containers had before an update in place; a JSON object.
pub(super) const UPDATE_STATE: &str = "apps.kruise.io/inplace-update-state";

/// Annotations of the watched kinds.
pub(super) struct Annotations;

impl ReadAnnotations for Annotations {
    const KEYS: &'static [&'static str] = &[
        names::HASH,
        names::HASH_WITHOUT_IMAGE,
        names::INJECTED_LIST,
        names::WORKING,
        names::CANARY,
        names::CANARY_BASE,
        names::MIGRATION_SECONDS,
        names::MIRROR,
        names::REFRESH_METADATA,
        STATE,
        UPDATE_STATE,
        OPERATIONS,
        TOTAL,
        berth_spread::MATCHED,
    ];
}
