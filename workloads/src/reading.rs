//! Reading of all objects at the start of a term.
//!
//! A watch is late by nature, and the leader before this one may have written a moment ago. So nothing is
//! planned before all workloads and their objects were read once in a term. Each namespace is read at once:
//! the API server reads all of it for each list, whatever a selector takes of that, so a list of each
//! workload would cost the more the more workloads there are beside each other.
//!
//! Many namespaces are read some at a time, and what is in these is planned before the next ones are read:
//! with ten thousand of them nobody waits for the last one. A namespace that cannot be read holds up none of
//! the others: they are planned, and it is read again, by itself and less and less often. Its objects wait
//! for that.
//!
//! A namespace that had no objects then may have some later. The first few of them are read each by itself,
//! and all further ones at once, as at the start: ten thousand that come into a new namespace would be ten
//! thousand lists of all of it. So it is with objects of which nobody knows what was written last
//! ([`repeat`]).

mod repeat;
mod sets;
mod unread;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Instant,
};

use berth_base::sent::Received;
use berth_base::time::later;
use berth_workloads_policy::{clone_set::ClaimView, pod::PodView, revision::Revision, store::version};
use futures::{StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource, api::ListParams};

use self::repeat::Repeats;
pub(crate) use self::sets::{FoundSet, KnownSets};
pub(crate) use self::unread::Unread;
use crate::{
    kinds::Kind,
    owned::Listed,
    spared::Spared,
    timing::Backoff,
    watch::{Claims, PAGE, Pods, Revisions, Watched},
    write::{Failure, Writer},
};

/// Objects of one answer of which little is read: lists of several namespaces come in beside each other, and
/// pods are the largest of these.
const SMALL: u32 = 50;
/// Namespaces that are read beside each other.
const AT_ONCE: usize = 4;
/// Namespaces of one reading, and as many beside them that are read again.
const MOST_AT_ONCE: usize = 64;
/// Objects of a namespace that had none at the start which are read each by itself.
const MOST_APART: usize = 8;
/// Namespaces in which these are counted; past them all are counted anew.
const MOST_COUNTED: usize = 4096;

/// Objects of a namespace.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pods: Listed<PodView>,
    pub(crate) claims: Listed<ClaimView>,
    pub(crate) revisions: Listed<Revision>,
    /// Workloads of each kind of which some are known.
    pub(crate) sets: Vec<(&'static Kind, Listed<FoundSet>)>,
}

/// End of a reading.
#[derive(Debug)]
pub(crate) struct Ended<F = Found> {
    /// Term that it was for.
    pub(crate) term: u64,
    /// Objects of each namespace that was read.
    pub(crate) found: Vec<(String, F)>,
    /// Namespaces that were not read, and why.
    pub(crate) failed: Vec<(String, String)>,
}

/// Standing of the reading of this term.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    read_in: Option<u64>,
    /// Namespaces that were read then.
    namespaces: BTreeSet<String>,
    /// Namespaces that were to be read then, and were not.
    missing: BTreeSet<String>,
    /// Namespaces among these that nobody has tried to read yet, or since all of them were tried.
    untried: BTreeSet<String>,
    /// Number of objects that were read each by itself, by namespace.
    apart: BTreeMap<String, usize>,
    /// Namespaces with more of them: they are to be read.
    wanted: BTreeSet<String>,
    /// Namespaces that are read again: nothing else of them waits for that.
    repeats: Repeats,
    /// Number of readings that were begun.
    begun: u64,
    /// Term that the last reading was begun in.
    begun_in: Option<u64>,
    on_its_way: bool,
    backoff: Backoff,
    /// Something was not read in that term, and is tried again then.
    again: Option<Instant>,
}

impl<F> Ended<F> {
    /// Namespaces that were read.
    pub(crate) fn read(&self) -> BTreeSet<String> {
        self.found.iter().map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Namespaces that were not.
    pub(crate) fn missing(&self) -> BTreeSet<String> {
        self.failed.iter().map(|(namespace, _)| namespace.clone()).collect()
    }
}

/// UIDs of objects in each of these namespaces, of `all` with namespace and UID. One look at all of them is
/// for all namespaces of a reading: ten thousand namespaces would be as many looks.
pub(crate) fn uids_in<'a>(
    namespaces: &BTreeSet<String>,
    all: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, Vec<String>> {
    let mut uids: BTreeMap<String, Vec<String>> =
        namespaces.iter().map(|namespace| (namespace.clone(), Vec::new())).collect();
    for (namespace, uid) in all {
        if let Some(uids) = uids.get_mut(namespace) {
            uids.push(uid.to_owned());
        }
    }
    uids
}

impl Reading {
    /// Tells whether the objects were read in this term, but for those of namespaces that are missing.
    pub(crate) fn is_done(&self, term: u64) -> bool {
        self.read_in == Some(term)
    }

    /// Term in which the objects were read last.
    pub(crate) fn term(&self) -> Option<u64> {
        self.read_in
    }

    /// Tells whether this namespace was read. A workload that the watch shows later may be in another one,
    /// and the leader before this one may have seen it sooner.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// Tells whether this namespace was to be read, and is still to be read: nothing of it is planned before.
    pub(crate) fn misses(&self, namespace: &str) -> bool {
        self.missing.contains(namespace)
    }

    /// Tells whether an object of a namespace that was not read is read by itself. Otherwise it waits until
    /// the namespace was.
    pub(crate) fn reads_apart(&mut self, namespace: &str) -> bool {
        // They may be gone by now.
        if self.apart.len() >= MOST_COUNTED {
            self.apart.clear();
        }
        let apart = self.apart.entry(namespace.to_owned()).or_default();
        if *apart < MOST_APART {
            *apart = apart.saturating_add(1);
            return true;
        }
        self.wanted.insert(namespace.to_owned());
        false
    }

    /// Tells whether an object of which nobody knows what was written last is read by itself. Otherwise it
    /// waits until its namespace was read again.
    pub(crate) fn reads_again_apart(&mut self, namespace: &str, now: Instant) -> bool {
        self.repeats.reads_apart(namespace, now)
    }

    /// Number of readings that were begun by now. Each is on its way until its end, before the next one.
    pub(crate) const fn begun(&self) -> u64 {
        self.begun
    }

    /// Time of the next reading. `None`: all is done, or it is on its way.
    pub(crate) fn next(&self, term: u64, now: Instant) -> Option<Instant> {
        if self.on_its_way {
            return None;
        }
        // Another term waits for nothing that failed before it.
        let again = self.again.filter(|_| self.begun_in == Some(term)).unwrap_or(now);
        if !self.is_done(term) {
            return Some(again);
        }
        if !self.wanted.is_empty() || !self.untried.is_empty() {
            return Some(now);
        }
        let missing = (!self.missing.is_empty()).then_some(again);
        missing.into_iter().chain(self.repeats.next()).min()
    }

    /// Namespaces that are to be read now in this term, of all that have objects.
    pub(crate) fn left(&mut self, term: u64, all: BTreeSet<String>, now: Instant) -> BTreeSet<String> {
        let mut wanted = std::mem::take(&mut self.wanted);
        if !self.is_done(term) {
            self.again = None;
            self.untried = all;
            return self.next_untried();
        }
        let of_all = |namespace: &String| all.contains(namespace);
        wanted.retain(of_all);
        self.missing.retain(of_all);
        self.untried.retain(of_all);
        self.untried.extend(wanted.iter().cloned());
        self.missing.append(&mut wanted);
        // Those that have failed come after all the others, and some at a time as well.
        if self.untried.is_empty() && self.again.is_none_or(|again| again <= now) {
            self.untried.clone_from(&self.missing);
            self.again = None;
        }
        let mut left = self.next_untried();
        left.extend(self.repeats.due(&all, now));
        self.repeats.begin(&left);
        left
    }

    /// Takes out some of those that are to be tried.
    fn next_untried(&mut self) -> BTreeSet<String> {
        let first_left = self.untried.iter().nth(MOST_AT_ONCE).cloned();
        let left = first_left.map(|first| self.untried.split_off(&first)).unwrap_or_default();
        std::mem::replace(&mut self.untried, left)
    }

    /// A reading for that term begins.
    pub(crate) fn begins(&mut self, term: u64) {
        if self.begun_in.replace(term) != Some(term) {
            self.backoff = Backoff::default();
        }
        self.on_its_way = true;
        self.begun = self.begun.saturating_add(1);
    }

    /// A reading for that term has ended: namespaces that were read, and those that were not.
    pub(crate) fn ends(
        &mut self,
        term: u64,
        read: BTreeSet<String>,
        mut missing: BTreeSet<String>,
        now: Instant,
    ) {
        self.on_its_way = false;
        if !self.is_done(term) {
            self.read_in = Some(term);
            self.namespaces.clear();
            self.apart.clear();
            // Their objects are read, or wait for the reading of what is missing.
            self.repeats = Repeats::default();
            self.missing = &missing | &self.untried;
        }
        self.repeats.end(&read, now);
        // One that was read before, and could not be read again, is known as it was.
        missing.retain(|namespace| self.missing.contains(namespace));
        self.missing.retain(|namespace| !read.contains(namespace));
        self.namespaces.extend(read);
        self.apart.retain(|namespace, _| !self.namespaces.contains(namespace));
        self.wanted.retain(|namespace| !self.namespaces.contains(namespace) && !missing.contains(namespace));
        if !missing.is_empty() {
            // Readings of many namespaces follow each other, and fail together: that is one failure.
            if self.again.is_none() {
                self.again = Some(later(now, self.backoff.ends(false)));
            }
        } else if self.missing.is_empty() {
            (self.backoff, self.again) = (Backoff::default(), None);
        }
    }

    /// A reading has ended that nobody knows anything of.
    pub(crate) fn is_lost(&mut self, now: Instant) {
        self.on_its_way = false;
        self.repeats.end(&BTreeSet::new(), now);
        self.again = Some(later(now, self.backoff.ends(false)));
    }
}

/// Reads all objects of these namespaces, some at once, as whoever wrote before may have left them. One that
/// cannot be read takes nothing from the others.
pub(crate) async fn each<F, R>(
    term: u64,
    namespaces: BTreeSet<String>,
    found: impl Fn(String) -> R,
) -> Ended<F>
where
    R: Future<Output = Result<F, Failure>>,
{
    let each = stream::iter(namespaces).map(|namespace| {
        let found = found(namespace.clone());
        async { (namespace, found.await) }
    });
    let mut each = pin!(each.buffer_unordered(AT_ONCE));
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    while let Some((namespace, found)) = each.next().await {
        match found {
            Ok(found) => all.push((namespace, found)),
            Err(failure) => failed.push((namespace, failure.text())),
        }
    }
    Ended { term, found: all, failed }
}

impl Writer {
    /// Reads all objects of the sets of these namespaces, and the sets that are `known`. Of revisions the
    /// templates that are `spared` are not kept until the end.
    pub(crate) async fn read_all(
        self,
        term: u64,
        namespaces: BTreeSet<String>,
        spared: Spared,
        known: KnownSets,
    ) -> Ended {
        each(term, namespaces, |namespace| self.found(namespace, &spared, &known)).await
    }

    async fn found(&self, namespace: String, spared: &Spared, known: &KnownSets) -> Result<Found, Failure> {
        let revision = |object| Revisions::view(object).map(|one| spared.of(one));
        Ok(Found {
            pods: self.watched::<Pods>(&namespace, Pods::view).await?,
            claims: self.watched::<Claims>(&namespace, Claims::view).await?,
            revisions: self.watched::<Revisions>(&namespace, revision).await?,
            sets: self.found_sets(&namespace, known).await?,
        })
    }

    async fn watched<W>(
        &self,
        namespace: &str,
        view: impl Fn(W::Object) -> Option<W::View>,
    ) -> Result<Listed<W::View>, Failure>
    where
        W: Watched,
        W::Sent: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = Api::<W::Sent>::namespaced(self.client.clone(), namespace);
        self.list(&api, "", view).await
    }

    /// Lists the objects of a kind that have these labels; of an empty text, all. One that nobody can read is
    /// set aside when the watch shows it.
    pub(crate) async fn list<K, V>(
        &self,
        api: &Api<K>,
        labels: &str,
        view: impl Fn(K::Object) -> Option<V>,
    ) -> Result<Listed<V>, Failure>
    where
        K: Received,
    {
        let page = if K::IS_SMALL { SMALL } else { PAGE };
        let mut params = ListParams::default().limit(page);
        if !labels.is_empty() {
            params = params.labels(labels);
        }
        let mut objects = Vec::new();
        loop {
            let _places = self.pages.acquire_many(if K::IS_SMALL { 1 } else { 2 }).await;
            // Without a version it is what etcd has now; all pages are of one version.
            let page = self.fetch("read", api.list(&params)).await?;
            objects.extend(page.items.into_iter().filter_map(|sent| sent.read().ok().and_then(&view)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => {
                    let version = version(page.metadata.resource_version.as_deref().unwrap_or_default());
                    return Ok(Listed { version, objects });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
