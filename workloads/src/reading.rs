//! Reading of all objects at the start of a term.
//!
//! A watch is late by nature, and the leader before this one may have written a moment ago. So nothing is
//! planned before the objects of all workloads were read once in a term. Each namespace is read at once: the
//! API server reads all of it for each list, whatever a selector takes of that, so a list of each workload
//! would cost the more the more workloads there are beside each other.

use std::{collections::BTreeSet, time::Instant};

use berth_base::sent::Received;
use berth_base::time::later;
use berth_workloads_policy::{clone_set::ClaimView, pod::PodView, revision::Revision, store::version};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource, api::ListParams};

use crate::{
    timing::Backoff,
    watch::{Claims, Pods, Revisions, Watched},
    write::{Failure, Writer},
};

/// Objects of one answer.
const PAGE: u32 = 500;
/// Namespaces that are read at once.
const AT_ONCE: usize = 4;

/// Objects of one kind and namespace, all there were at a version.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) version: u64,
    pub(crate) objects: Vec<T>,
}

/// Objects of a namespace.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pods: Listed<PodView>,
    pub(crate) claims: Listed<ClaimView>,
    pub(crate) revisions: Listed<Revision>,
}

/// End of a reading.
#[derive(Debug)]
pub(crate) struct Ended<F = Found> {
    /// Term that it was for.
    pub(crate) term: u64,
    /// Objects of each namespace.
    pub(crate) found: Result<Vec<(String, F)>, String>,
}

/// Standing of the reading of this term.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    read_in: Option<u64>,
    /// Namespaces that were read then.
    namespaces: BTreeSet<String>,
    on_its_way: bool,
    backoff: Backoff,
    /// It failed, and is tried again then.
    again: Option<Instant>,
}

impl<F> Ended<F> {
    /// Namespaces that were read; `None`: it failed.
    pub(crate) fn namespaces(&self) -> Option<BTreeSet<String>> {
        let found = self.found.as_ref().ok()?;
        Some(found.iter().map(|(namespace, _)| namespace.clone()).collect())
    }
}

impl Reading {
    /// Tells whether all objects were read in this term.
    pub(crate) fn is_done(&self, term: u64) -> bool {
        self.read_in == Some(term)
    }

    /// Term in which all objects were read last.
    pub(crate) fn term(&self) -> Option<u64> {
        self.read_in
    }

    /// Tells whether this namespace was read. A workload that the watch shows later may be in another one,
    /// and the leader before this one may have seen it sooner.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// Time of the next reading. `None`: it is done, or on its way.
    pub(crate) fn next(&self, term: u64, now: Instant) -> Option<Instant> {
        if self.on_its_way || self.is_done(term) { None } else { Some(self.again.unwrap_or(now)) }
    }

    /// A reading begins.
    pub(crate) fn begins(&mut self) {
        self.on_its_way = true;
        self.again = None;
    }

    /// A reading of these namespaces for that term has ended; `None`: it failed.
    pub(crate) fn ends(&mut self, term: u64, namespaces: Option<BTreeSet<String>>, now: Instant) {
        let Some(namespaces) = namespaces else { return self.is_lost(now) };
        self.on_its_way = false;
        self.backoff.ends(true);
        (self.read_in, self.namespaces) = (Some(term), namespaces);
    }

    /// A reading has ended that nobody knows anything of.
    pub(crate) fn is_lost(&mut self, now: Instant) {
        self.on_its_way = false;
        self.again = Some(later(now, self.backoff.ends(false)));
    }
}

/// Reads all objects of these namespaces, some at once, as whoever wrote before may have left them.
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
        async { Ok((namespace, found.await?)) }
    });
    let found = each.buffer_unordered(AT_ONCE).try_collect().await;
    Ended { term, found: found.map_err(|failure: Failure| failure.text()) }
}

impl Writer {
    /// Reads all objects of the sets of these namespaces.
    pub(crate) async fn read_all(self, term: u64, namespaces: BTreeSet<String>) -> Ended {
        each(term, namespaces, |namespace| self.found(namespace)).await
    }

    async fn found(&self, namespace: String) -> Result<Found, Failure> {
        Ok(Found {
            pods: self.watched::<Pods>(&namespace).await?,
            claims: self.watched::<Claims>(&namespace).await?,
            revisions: self.watched::<Revisions>(&namespace).await?,
        })
    }

    async fn watched<W>(&self, namespace: &str) -> Result<Listed<W::View>, Failure>
    where
        W: Watched,
        W::Sent: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = Api::<W::Sent>::namespaced(self.client.clone(), namespace);
        self.list(&api, "", W::view).await
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
        let mut params = ListParams::default().limit(PAGE);
        if !labels.is_empty() {
            params = params.labels(labels);
        }
        let mut objects = Vec::new();
        loop {
            // Without a version it is what etcd has now; all pages are of one version.
            let page = self.ask("read", api.list(&params)).await?;
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
mod tests {
    use super::*;

    #[test]
    fn each_term_is_read_once_and_again_after_a_failure() {
        let (mut reading, now) = (Reading::default(), Instant::now());
        assert_eq!(reading.next(0, now), Some(now));
        reading.begins();
        assert_eq!((reading.next(0, now), reading.is_done(0)), (None, false), "on its way");
        reading.ends(0, None, now);
        let again = reading.next(0, now).unwrap();
        assert!(again > now && !reading.is_done(0));
        reading.begins();
        // Meanwhile another term has begun.
        reading.ends(0, Some(["ns".to_owned()].into()), now);
        assert!(reading.covers("ns") && !reading.covers("another"));
        assert_eq!((reading.next(0, now), reading.next(1, now)), (None, Some(now)));
        reading.begins();
        reading.is_lost(now);
        assert!(reading.next(1, now).is_some_and(|again| again > now));
    }
}
