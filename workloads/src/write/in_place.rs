//! Updates in place: entries in the objects of nodes.

use berth_proto::crd::NodePodUpdate;
use berth_workloads_policy::action::InPlaceUpdate;
use jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::Value;

use super::{End, FIELD_MANAGER, Work, Wrote, failure::Failure};
use crate::mailbox::{self, Mailbox};

/// How often a change of the entries of a node is tried on its newest version.
const MAILBOX_TRIES: usize = 5;

impl Work {
    pub(super) async fn update_in_place(&mut self, update: &InPlaceUpdate) -> End {
        let entry = mailbox::entry(update, self.set.as_ref(), Timestamp::now());
        let end = self.mailbox(&update.node, |mailbox| mailbox.with(&entry)).await;
        if end == End::Done {
            let text = format!("update pod {} in place (revision {})", update.name, update.revision);
            self.tell(false, "SuccessfulUpdatePodInPlace", text);
        }
        end
    }

    /// Changes the entries of a node, on its object as it is now. `None`: nothing is to be changed.
    pub(super) async fn mailbox(&mut self, node: &str, change: impl Fn(&Mailbox) -> Option<Value>) -> End {
        let api = Api::<NodePodUpdate>::all(self.writer.client.clone());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        for _ in 0..MAILBOX_TRIES {
            let mailbox = match self.writer.ask("nodepodupdate_read", api.get(node)).await {
                Ok(object) => Mailbox::of(object),
                Err(failure) => {
                    return self.failed(failure, "FailedUpdatePodInPlace", End::UpdateFailed).await;
                }
            };
            let Some(body) = change(&mailbox) else {
                self.wrote.push(Wrote::Mailbox(mailbox));
                return End::Done;
            };
            let body = Patch::Apply(&body);
            match self.writer.ask("nodepodupdate", api.patch_status(node, &params, &body)).await {
                Ok(object) => {
                    self.wrote.push(Wrote::Mailbox(Mailbox::of(object)));
                    return End::Done;
                }
                // Its agent or another set was faster.
                Err(Failure::Changed) => {}
                Err(failure) => {
                    return self.failed(failure, "FailedUpdatePodInPlace", End::UpdateFailed).await;
                }
            }
        }
        End::Changed
    }
}
