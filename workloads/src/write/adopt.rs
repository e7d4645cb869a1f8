//! Pods and revisions that a set adopts, one by one: one that cannot be adopted holds nothing up.

use berth_workloads_policy::action::Target;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use serde_json::Value;

use super::{CHANGED_BY_CLUSTER, End, Failure, Work, Wrote, run::MOST_ERRORS};
use crate::watch::Watched;

/// Failures of a plan after which no other object is tried: what refuses so many may refuse all.
const MOST_FAILED: usize = 16;

impl Work {
    /// Makes the set the owner that decides on an object.
    pub(super) async fn adopt<W>(
        &mut self,
        what: &'static str,
        target: Target,
        patch: Value,
        there: fn(W::View) -> Wrote,
        gone: fn(String) -> Wrote,
    ) -> End
    where
        W: Watched,
        W::Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        if self.unadopted.len() >= MOST_FAILED || self.errors >= MOST_ERRORS {
            return End::Done;
        }
        let wrote = match self.write_owner::<W::Object>(&target, patch).await {
            Ok(Some(object)) => W::view(object).map_or_else(|| gone(target.uid.clone()), there),
            Ok(None) => return End::Changed,
            Err(Failure::Gone) => gone(target.uid),
            Err(Failure::Changed) => return End::Changed,
            Err(failure @ Failure::Busy(_)) => {
                return self.failed(failure, "FailedUpdate", End::UpdateFailed).await;
            }
            Err(failure) => {
                // Should it be done all the same, that is seen before anything else is decided.
                if failure.is_error() {
                    self.unread = true;
                    self.errors = self.errors.saturating_add(1);
                }
                let text = failure.text();
                self.warn("FailedUpdate", format!("{what} {} is not adopted: {text}", target.name));
                self.unadopted.push((target.uid, text));
                return End::Done;
            }
        };
        self.wrote.push(wrote);
        End::Done
    }

    /// Writes the owner of an object. The set is read before: one that goes and leaves its pods behind has
    /// let go of them a moment ago, and would take along what it adopted again. `None`: it goes, or is gone.
    async fn write_owner<K>(&self, target: &Target, patch: Value) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api = self.sets();
        let meta = match self.writer.fetch("workload_read", api.get_metadata(self.set.name())).await {
            Err(Failure::Gone) => return Ok(None),
            set => set?.metadata,
        };
        if meta.uid.as_deref() != Some(self.set.uid()) || meta.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let written: Option<K> = self.patch(target, patch).await?;
        let mut owners = written.iter().flat_map(|object| object.meta().owner_references.iter().flatten());
        if owners.any(|owner| owner.uid == self.set.uid()) {
            return Ok(written);
        }
        Err(Failure::Refused(CHANGED_BY_CLUSTER.to_owned()))
    }
}
