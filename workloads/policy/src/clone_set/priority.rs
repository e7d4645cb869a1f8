//! Order of an update as the set's author wants it: by priority, then spread over labels.

use berth_proto::crd::UpdateScatterTerm;

use super::{member::Member, order, rules::Priority};
use crate::update_order;

/// Sorts the pods that wait for an update. `all`: every pod of the set.
///
/// Among pods of one priority those that do not serve come first: otherwise one that is broken could hold all
/// others back for ever.
pub(super) fn sort<'a>(
    waiting: &mut Vec<Member<'a>>,
    all: &[Member<'a>],
    priority: &Priority,
    scatter: &[UpdateScatterTerm],
) {
    order::waiting(waiting);
    match priority {
        Priority::None => {}
        Priority::Weights(terms) => waiting.sort_by_cached_key(|member| {
            let weights = terms.iter().filter(|(_, selector)| selector.takes(&member.pod.labels));
            weights.map(|(weight, _)| i64::from(*weight)).fold(0, i64::saturating_add).saturating_neg()
        }),
        Priority::Labels(keys) => waiting.sort_by_cached_key(|member| {
            update_order::rank(keys.iter().map(|key| member.pod.labels.get(key).map(String::as_str)))
        }),
    }
    let mut terms: Vec<(usize, &UpdateScatterTerm)> = scatter
        .iter()
        .map(|term| (waiting.iter().filter(|member| has(member, term)).count(), term))
        .filter(|(matched, _)| *matched > 0)
        .collect();
    // Stable: of those that match as many, the one that was named first.
    terms.sort_by_key(|(matched, _)| std::cmp::Reverse(*matched));
    for (_, term) in terms {
        *waiting = spread(waiting, all, term);
    }
    waiting.sort_by_key(|member| !member.state.awaits_update());
}

fn has(member: &Member<'_>, term: &UpdateScatterTerm) -> bool {
    member.pod.labels.get(&term.key) == Some(&term.value)
}

/// Spreads the pods with a label over the others, the last one of them at the end.
fn spread<'a>(waiting: &[Member<'a>], all: &[Member<'a>], term: &UpdateScatterTerm) -> Vec<Member<'a>> {
    let with = all.iter().filter(|member| has(member, term)).count();
    let counts = (with, all.len().saturating_sub(with));
    update_order::spread(waiting, |member| has(member, term), counts)
}
