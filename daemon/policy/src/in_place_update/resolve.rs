//! Requests of one pod as they can be planned together: those that name another one are refused, and entries
//! of owners that do not have it, or contradict each other; annotations that are merged get their values.
//!
//! Nothing is guessed where two owners want one thing: the later one is refused and said. One that has begun
//! came before one that has not. What a person asks for goes over both, as ever.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    in_place_update::{
        Failure, FailureReason, MetadataKey, Observed, UpdateOwner, UpdateReport, UpdateRequest, WORKING,
        answer::end,
        merge_patch::MergeError,
        request::INJECTED_LIST,
        stage::{stages, twins},
    },
    model::RequestId,
};

/// A container or a key that an entry speaks of, for people.
type Thing = String;

/// Makes the requests ready. Returns them, and the reports for those that are refused.
pub(super) fn resolve<'a>(
    requests: &'a [UpdateRequest],
    seen: &Observed,
) -> (Cow<'a, [UpdateRequest]>, Vec<(RequestId, UpdateReport)>) {
    let open = || requests.iter().filter(|request| request.ended.is_none());
    let entries = open().filter(|request| request.is_entry());
    let owners: BTreeSet<_> = entries.map(|request| &request.owner).collect();
    let is_plain = |request: &UpdateRequest| request.shared().next().is_none() && request.may_want(seen);
    if owners.len() < 2 && open().all(is_plain) {
        return (Cow::Borrowed(requests), Vec::new());
    }
    let mut refused = contradictions(open().filter(|request| request.may_want(seen)));
    let others = open().filter(|request| !request.may_want(seen));
    refused.extend(others.map(|request| (request.id.clone(), not_its_own(request, seen))));
    for request in open() {
        if let Err(message) = stages(request, seen) {
            let failure = Failure { reason: FailureReason::InvalidRequest, message };
            refused.entry(request.id.clone()).or_insert(failure);
        }
    }
    let values = values(open().filter(|request| !refused.contains_key(&request.id)), seen);
    let mut resolved = Vec::with_capacity(requests.len());
    for request in requests {
        let mut request = request.clone();
        match values.get(&request.id) {
            Some(Ok(values)) => request.metadata.extend(values.clone()),
            Some(Err((key, error))) => {
                let message = format!("annotation {key} cannot be merged for {}: {error}", request.owner);
                let failure = Failure { reason: FailureReason::AnnotationNotMergeable, message };
                refused.insert(request.id.clone(), failure);
            }
            None => {}
        }
        if !refused.contains_key(&request.id) {
            resolved.push(request);
        }
    }
    let reports = open().filter_map(|request| Some(end(request, Err(refused.get(&request.id)?), Some(seen))));
    let reports = reports.collect();
    (Cow::Owned(resolved), reports)
}

/// Refuses a request about another pod than it names, and an entry of an owner that does not have the pod:
/// whoever writes a status, or entries, may give the UID of any.
fn not_its_own(request: &UpdateRequest, seen: &Observed) -> Failure {
    if !request.names(seen.named.as_deref()) {
        let message = "the pod of the UID that it was given is not the one that it names".to_owned();
        return Failure { reason: FailureReason::InvalidRequest, message };
    }
    let message = match &request.owner {
        UpdateOwner::Workload => {
            "the pod is none of the workload that asks: it has another controller, or none".to_owned()
        }
        set @ UpdateOwner::SidecarSet(_) => {
            format!("the pod has not got {set}: its annotation {INJECTED_LIST} does not name it")
        }
    };
    Failure { reason: FailureReason::NotAskedFor, message }
}

/// The entries that want something else of a thing than another owner's that came before.
fn contradictions<'a>(open: impl Iterator<Item = &'a UpdateRequest>) -> BTreeMap<RequestId, Failure> {
    let mut entries: Vec<&UpdateRequest> =
        open.filter(|request| request.is_entry() && !request.is_going_back()).collect();
    entries.sort_by_key(|entry| (entry.reported.previous.is_none(), entry.created, &entry.id));
    let mut taken: BTreeMap<Thing, (String, &UpdateRequest)> = BTreeMap::new();
    let mut refused = BTreeMap::new();
    for entry in entries {
        let things = things(entry);
        let contradiction = things.iter().find_map(|(thing, wanted)| {
            let (other, first) = taken.get(thing)?;
            (first.owner != entry.owner && other != wanted).then(|| {
                format!(
                    "{thing}: {} wants {wanted}, and {}, which came before, wants {other}; the later one is \
                     refused: let one of the two have it",
                    entry.owner, first.owner
                )
            })
        });
        match contradiction {
            Some(message) => {
                refused.insert(entry.id.clone(), Failure { reason: FailureReason::Conflict, message });
            }
            None => taken.extend(things.into_iter().map(|(thing, wanted)| (thing, (wanted, entry)))),
        }
    }
    refused
}

/// Things that an entry wants for itself. Members of merged annotations can be shared, the annotation cannot
/// be both merged and set.
fn things(entry: &UpdateRequest) -> Vec<(Thing, String)> {
    let images =
        entry.images.iter().map(|(name, image)| (format!("container {name}"), format!("image {image}")));
    let metadata = entry.metadata.iter().map(|(key, value)| match key {
        MetadataKey::Label(key) => (format!("label {key}"), format!("{value:?}")),
        MetadataKey::Annotation(key) => (format!("annotation {key}"), format!("{value:?}")),
    });
    let merged = entry.merges.keys().map(|key| (format!("annotation {key}"), "it merged".to_owned()));
    // Twins that come to rest are wanted by nobody.
    let swaps = entry.swaps.iter().filter_map(|(name, swap)| Some((name, swap.image.as_ref()?)));
    let swaps = swaps.flat_map(|(name, image)| {
        twins(name).map(|twin| (format!("container {twin}"), format!("a swap of {name} to {image}")))
    });
    images.chain(swaps).chain(metadata).chain(merged).collect()
}

type Values = BTreeMap<MetadataKey, String>;

/// Values of the annotations that are merged or defaulted, by request: each on top of those before it.
fn values<'a>(
    open: impl Iterator<Item = &'a UpdateRequest>,
    seen: &Observed,
) -> BTreeMap<RequestId, Result<Values, (String, MergeError)>> {
    let mut open: Vec<&UpdateRequest> = open.collect();
    open.sort_by_key(|request| request.age());
    let mut on_top = Values::new();
    let mut all = BTreeMap::new();
    for request in open {
        let own = match request.is_going_back() {
            true => Ok(values_back(request, &on_top, seen)),
            false => values_there(request, &on_top, seen),
        };
        if let Ok(own) = &own {
            on_top.extend(own.clone());
            if !request.is_going_back() {
                on_top.extend(request.metadata.clone());
            }
        }
        all.insert(request.id.clone(), own);
    }
    all
}

fn current<'a>(key: &MetadataKey, on_top: &'a Values, seen: &'a Observed) -> Option<&'a str> {
    on_top.get(key).or_else(|| seen.metadata.get(key)).map(String::as_str)
}

fn values_there(
    request: &UpdateRequest,
    on_top: &Values,
    seen: &Observed,
) -> Result<Values, (String, MergeError)> {
    let mut own = Values::new();
    for (name, patch) in &request.merges {
        let key = MetadataKey::Annotation(name.clone());
        let value = patch.merge(current(&key, on_top, seen)).map_err(|error| (name.clone(), error))?;
        own.insert(key, value);
    }
    if let Some((key, value)) = working(request, on_top, seen) {
        own.insert(key, value.map_err(|error| (WORKING.to_owned(), error))?);
    }
    for (name, default) in &request.defaults {
        let key = MetadataKey::Annotation(name.clone());
        let value = current(&key, on_top, seen).unwrap_or(default).to_owned();
        own.insert(key, value);
    }
    Ok(own)
}

/// Values of the way back: only the own members go back. A value that became no JSON meanwhile is left to
/// whoever wrote it.
fn values_back(request: &UpdateRequest, on_top: &Values, seen: &Observed) -> Values {
    let Some(previous) = &request.reported.previous else { return Values::new() };
    let back = request.merges.iter().filter_map(|(name, patch)| {
        let key = MetadataKey::Annotation(name.clone());
        let before = previous.metadata.get(&key)?;
        let value = patch.inverse(before.as_deref()).merge(current(&key, on_top, seen)).ok()?;
        Some((key, value))
    });
    let working = working(request, on_top, seen).and_then(|(key, value)| Some((key, value.ok()?)));
    back.chain(working).collect()
}

/// Value of the annotation of working twins with those of this request's swaps in it.
fn working(
    request: &UpdateRequest,
    on_top: &Values,
    seen: &Observed,
) -> Option<(MetadataKey, Result<String, MergeError>)> {
    if request.swaps.is_empty() {
        return None;
    }
    let key = MetadataKey::Annotation(WORKING.to_owned());
    let before = current(&key, on_top, seen).unwrap_or_default().to_owned();
    let mut patches = request.stages(seen).into_iter().filter_map(|staged| staged.working);
    let after = patches.try_fold(before, |value, patch| patch.merge(Some(&value)));
    Some((key, after)).filter(|(_, value)| value.as_ref().map_or(true, |value| !value.is_empty()))
}
