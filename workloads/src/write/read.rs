//! Objects of a set, read from the API server where nobody knows what there is.

use berth_workloads_policy::selector::Selector;
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::PersistentVolumeClaim};
use kube::{Api, api::ListParams};

use super::{End, Work, Wrote, failure::Failure};
use crate::{
    trimmed::TrimmedPod,
    watch::{Claims, Pods, Revisions, Watched},
};

impl Work {
    /// Another revision may have this name, or the picture is old.
    pub(super) async fn name_taken(&mut self) -> End {
        let before = self.wrote.len();
        match self.read().await {
            End::Done => {}
            end => return end,
        }
        let found = self.wrote.get(before..).unwrap_or_default().iter().any(|wrote| match wrote {
            Wrote::Read(_, _, _, revisions) => {
                revisions.iter().any(|revision| revision.has(self.set.template()))
            }
            _ => false,
        });
        if found { End::Changed } else { End::NameTaken }
    }

    /// Reads all objects of the set.
    pub(super) async fn read(&mut self) -> End {
        let selector = match Selector::parse("spec.selector", self.set.selector()) {
            Ok(selector) => selector,
            Err(fault) => return End::UpdateFailed(fault.to_string()),
        };
        let (client, namespace) = (self.writer.client.clone(), self.namespace.clone());
        let params = ListParams::default().labels(&selector.text());
        let uid = self.set.uid().to_owned();
        let pods = Api::<TrimmedPod>::namespaced(client.clone(), &namespace);
        let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &namespace);
        let revisions = Api::<ControllerRevision>::namespaced(client, &namespace);
        let ask = async {
            let pods = self.writer.ask("read", pods.list(&params)).await?;
            let claims = self.writer.ask("read", claims.list(&params)).await?;
            let revisions = self.writer.ask("read", revisions.list(&params)).await?;
            Ok::<_, Failure>((pods, claims, revisions))
        };
        match ask.await {
            Ok::<_, Failure>((pods, claims, revisions)) => {
                let pods = pods.items.into_iter().filter_map(Pods::view).filter(|pod| pod.owner() == uid);
                let claims = claims.items.into_iter().filter_map(Claims::view);
                let claims = claims.filter(|claim| self.set.has_claim(claim));
                let revisions =
                    revisions.items.into_iter().filter_map(Revisions::view).filter(|one| one.owner == uid);
                let (pods, claims, revisions) = (pods.collect(), claims.collect(), revisions.collect());
                self.wrote.push(Wrote::Read(selector, pods, claims, revisions));
                End::Done
            }
            Err(failure) => End::UpdateFailed(failure.text()),
        }
    }
}
