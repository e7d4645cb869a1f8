//! Which revision of a set a pod gets: the newest, or the one that `injectionStrategy.revision` names.

use crate::{
    fault::Refusal,
    selector::Labels,
    set::{Revision, Set, Share},
};

/// Revision for a pod with these labels. `before` is the hash that the pod carries already: an API server
/// that asks twice gets one answer, whatever was drawn.
pub(crate) fn choose<'s>(
    set: &'s Set,
    labels: &Labels,
    before: Option<&str>,
    draw: &mut dyn FnMut() -> u8,
) -> Result<&'s Revision, Refusal> {
    let Some(named) = &set.named else { return Ok(&set.newest) };
    let missing = || Refusal::Revision { set: set.name.clone(), revision: named.wanted.clone() };
    let revision = named.revision.as_ref().ok_or_else(missing)?;
    let Share::Partial { selector, percent } = &named.share else { return Ok(revision) };
    if selector.as_ref().is_some_and(|selector| !selector.takes(labels)) {
        return Ok(revision);
    }
    let drawn = match (percent, before) {
        (0, _) => false,
        (100.., _) => true,
        (_, Some(hash)) if hash == revision.hashes.hash => true,
        (_, Some(hash)) if hash == set.newest.hashes.hash => false,
        (percent, _) => draw() < *percent,
    };
    Ok(if drawn { revision } else { &set.newest })
}
