//! The kubelet's calls that wait for a pull of ours instead of repeating it.
//!
//! A caller that waits has shown the credentials that the runtime is being asked with. When the executor
//! moves on to others, those who wait go their own way: an image that came with a credential the caller does
//! not have is not theirs.

use super::{
    Images, JoinedPull,
    wish::{CredentialKey, PullId},
};
use crate::model::CallId;

/// A call that waits for a pull.
#[derive(Debug)]
pub(super) struct Joiner {
    pull: PullId,
    /// The runtime is asked with other credentials by now.
    outpaced: bool,
}

impl Images {
    /// The running pull that a pull of the kubelet of this record with these credentials would repeat.
    pub fn joinable(&self, record: &str, credential: CredentialKey) -> Option<PullId> {
        let same = self.pulls.iter().find(|(id, pull)| {
            let asked = *pull.image.record == *record && pull.asked == Some(credential);
            asked && pull.is_open() && !self.is_outpaced(**id)
        });
        same.map(|(id, _)| *id)
    }

    /// Returns how a pull stands that was joined.
    ///
    /// It has failed for all who joined it as long as one of them is there whose credentials are not those it
    /// goes on with.
    pub fn joined(&self, pull: PullId) -> JoinedPull {
        match self.pulls.get(&pull) {
            _ if self.is_outpaced(pull) => JoinedPull::Failed,
            Some(known) => known.done.clone().map_or(JoinedPull::Running, JoinedPull::Done),
            None => JoinedPull::Failed,
        }
    }

    pub(super) fn join(&mut self, call: CallId, pull: PullId) {
        if !self.pulls.contains_key(&pull) {
            return;
        }
        let joiner = self.joiners.entry(call).or_insert(Joiner { pull, outpaced: false });
        if joiner.pull != pull {
            *joiner = Joiner { pull, outpaced: false };
        }
        self.forget_joined();
    }

    pub(super) fn leave(&mut self, call: CallId) {
        self.joiners.remove(&call);
        self.forget_joined();
    }

    pub(super) fn pull_asked(&mut self, id: PullId, credential: CredentialKey) {
        let Some(pull) = self.pulls.get_mut(&id).filter(|pull| pull.is_running()) else { return };
        if pull.asked.replace(credential) != Some(credential) {
            let waiting = self.joiners.values_mut().filter(|joiner| joiner.pull == id);
            waiting.for_each(|joiner| joiner.outpaced = true);
        }
    }

    /// Tells whether somebody waits for it who will get it.
    pub(super) fn is_joined(&self, pull: PullId) -> bool {
        self.joiners.values().any(|joiner| joiner.pull == pull && !joiner.outpaced)
    }

    /// Outcomes nobody asks about any more are forgotten.
    pub(super) fn forget_joined(&mut self) {
        let joiners = &self.joiners;
        let joined = |id: PullId| joiners.values().any(|joiner| joiner.pull == id && !joiner.outpaced);
        self.pulls.retain(|id, pull| pull.is_running() || joined(*id));
    }

    fn is_outpaced(&self, pull: PullId) -> bool {
        self.joiners.values().any(|joiner| joiner.pull == pull && joiner.outpaced)
    }
}
