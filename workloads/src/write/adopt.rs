//! Pods and revisions that a set adopts.

use berth_workloads_policy::action::Target;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use serde_json::Value;

use super::{End, Failure, Work, Wrote};
use crate::watch::Watched;

impl Work {
    /// Makes the set the owner that decides on an object. The set is read before: one that goes and leaves
    /// its pods behind has let go of them a moment ago, and would take along what it adopted again.
    pub(super) async fn adopt<W>(
        &mut self,
        target: Target,
        patch: Value,
        there: fn(W::View) -> Wrote,
        gone: fn(String) -> Wrote,
    ) -> End
    where
        W: Watched,
        W::Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = self.sets();
        let meta = match self.writer.ask("workload_read", api.get_metadata(self.set.name())).await {
            Ok(set) => set.metadata,
            Err(Failure::Gone) => return End::Changed,
            Err(failure) => return self.failed(failure, "FailedUpdate", End::UpdateFailed).await,
        };
        if meta.uid.as_deref() != Some(self.set.uid()) || meta.deletion_timestamp.is_some() {
            return End::Changed;
        }
        let written = self.patch::<W::Object>(&target, patch).await;
        self.settle::<W>(written, &target.uid, there, gone, End::UpdateFailed).await
    }
}
