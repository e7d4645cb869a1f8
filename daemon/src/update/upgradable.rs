//! Words of SidecarSets for pods: whether a pod can be brought to the set's newest sidecars in place, in
//! its condition `SidecarSetUpgradable`. The manager, which sees all pods of a set, asks for a word by an
//! entry of the `NodePodUpdate`; it is said only if the set's own hash and the pod's say the same.

use std::{collections::BTreeMap, time::Duration};

use berth_policy::{
    PodRef,
    in_place_update::{FailureReason, UpdateOutcome, UpdatePhase, UpdateReport},
};
use berth_proto::crd::{DesiredPod, SidecarSet};
use berth_sidecarset::{
    names::HASH_WITHOUT_IMAGE,
    upgradable::{CONDITION, Upgradable, is_upgradable, with_word},
};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::{Parts, sidecar_sets::owner};
use crate::{base::causes::chain, cluster::client::CallError, cluster::v1 as core, pods::read};

/// Pause between two writes on this node.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
/// Pause before a condition that could not be written is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Consequence of an entry with a word.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// The condition is to be this.
    Write(Upgradable),
    /// It is.
    Said,
    /// It is not said, for this reason.
    Refused(FailureReason, String),
}

/// Sets by name, read once for all entries that are looked at together.
type Sets = BTreeMap<String, Option<SidecarSet>>;

impl Parts {
    /// Says the words that are asked for; for ever.
    pub(super) async fn keep_words(&self) {
        loop {
            let (mut sets, mut all_said) = (Sets::new(), true);
            for entry in self.node_pod_update.words().await {
                all_said &= self.say_word(&entry, &mut sets).await;
                sleep(WRITE_INTERVAL).await;
            }
            let other = self.node_pod_update.other_words();
            if all_said {
                other.await;
            } else {
                // Cancel-safe: all words are looked at again either way.
                drop(timeout(RETRY_PAUSE, other).await);
            }
        }
    }

    /// False: not said, for a reason that may be over in a moment.
    async fn say_word(&self, entry: &DesiredPod, sets: &mut Sets) -> bool {
        let word = match self.word_of(entry, sets).await {
            Ok(word) => word,
            Err(error) => {
                warn!(pod = entry.name, error = %chain(&error), "Not known whether a pod can be upgraded, trying again");
                return false;
            }
        };
        let outcome = match word {
            (Word::Said, _) | (Word::Write(_), None) => Ok(()),
            (Word::Refused(reason, why), _) => Err((reason, why)),
            (Word::Write(condition), Some(pod)) => match self.writer.upgradable(&pod, &condition).await {
                Ok(_) => {
                    info!(pod = entry.name, condition.message, "Pod is told whether it can be upgraded");
                    Ok(())
                }
                Err(error) => match error.refusal_or_forbidden() {
                    Some(why) => Err((FailureReason::Refused, why.to_owned())),
                    // The pod is another one by now, or nobody has answered.
                    None => {
                        warn!(pod = entry.name, error = %chain(&error), "Pod not told whether it can be upgraded");
                        return false;
                    }
                },
            },
        };
        self.node_pod_update.answer_word(entry, &report(outcome)).await
    }

    /// The word, and the pod that it is for.
    async fn word_of(
        &self,
        entry: &DesiredPod,
        sets: &mut Sets,
    ) -> Result<(Word, Option<core::Pod>), CallError> {
        if let Some(flaw) = self.node_pod_update.flaw(entry) {
            return Ok((Word::Refused(flaw.reason, flaw.message), None));
        }
        let name = owner(entry).unwrap_or_default();
        if !sets.contains_key(name) {
            sets.insert(name.to_owned(), self.node_pod_update.set(entry).await?);
        }
        let pod = PodRef {
            uid: entry.uid.as_str().into(),
            namespace: entry.namespace.clone(),
            name: entry.name.clone(),
        };
        let pod = self.writer.look(&pod).await?;
        Ok((word(entry, sets.get(name).and_then(Option::as_ref), pod.as_ref()), pod))
    }
}

/// The word of a set, if it and the pod say the same as the entry.
fn word(entry: &DesiredPod, set: Option<&SidecarSet>, pod: Option<&core::Pod>) -> Word {
    let name = owner(entry).unwrap_or_default();
    let Some(pod) = pod else { return Word::Refused(FailureReason::PodGone, "pod has gone".to_owned()) };
    let Some(set) = set.filter(|set| set.metadata.uid.as_ref() == Some(&entry.owner_uid)) else {
        let why = format!("there is no SidecarSet {name} with the UID of this entry");
        return Word::Refused(FailureReason::InvalidRequest, why);
    };
    let hash = |annotations: &Option<BTreeMap<String, String>>| {
        annotations.as_ref().and_then(|annotations| annotations.get(HASH_WITHOUT_IMAGE)).cloned()
    };
    let (of_set, of_pod) = (hash(&set.metadata.annotations), hash(&pod.metadata.annotations));
    let can = is_upgradable(name, of_set.as_deref(), of_pod.as_deref());
    if entry.upgradable != Some(can) {
        let how = if can { "images alone, if at all" } else { "more than images" };
        let why = format!("the pod differs from SidecarSet {name} in {how}, by their hashes without images");
        return Word::Refused(FailureReason::InvalidRequest, why);
    }
    let message = read::condition(pod, CONDITION).and_then(|condition| condition.message.as_deref());
    with_word(message, name, can).map_or(Word::Said, Word::Write)
}

fn report(outcome: Result<(), (FailureReason, String)>) -> UpdateReport {
    let (outcome, message) = match outcome {
        Ok(()) => (UpdateOutcome::Complete, String::new()),
        Err((reason, why)) => (UpdateOutcome::Failed(reason), why),
    };
    UpdateReport {
        phase: Some(UpdatePhase::Ended),
        outcome: Some(outcome),
        message,
        ..UpdateReport::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(uid: &str, hash: &str) -> SidecarSet {
        let set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
            "metadata": { "name": "s", "uid": uid, "annotations": { HASH_WITHOUT_IMAGE: hash } },
            "spec": { "selector": {}, "containers": [] },
        });
        serde_json::from_value(set).unwrap()
    }

    /// A pod with the hash `h` of the set, and this message of the condition.
    fn pod(message: Option<&str>) -> core::Pod {
        let conditions =
            message.map(|message| json!({ "type": CONDITION, "status": "False", "message": message }));
        let pod = json!({
            "metadata": { "name": "p", "annotations": { HASH_WITHOUT_IMAGE: "{\"s\":{\"hash\":\"h\"}}" } },
            "spec": { "containers": [] },
            "status": { "conditions": conditions.into_iter().collect::<Vec<_>>() },
        });
        serde_json::from_value(pod).unwrap()
    }

    /// Rows: the word, the set's UID and hash, what the condition says, and what follows: a message, nothing,
    /// or a reason.
    #[test]
    fn a_word_is_said_if_it_is_so() {
        let refused = "InvalidRequest";
        let table = [
            (false, Some(("u", "new")), None, r#"{"s":false}"#),
            (false, Some(("u", "new")), Some(r#"{"s":false}"#), ""),
            (true, Some(("u", "h")), Some(r#"{"a":false,"s":false}"#), r#"{"a":false,"s":true}"#),
            (true, Some(("u", "new")), None, refused),
            (false, Some(("u", "h")), None, refused),
            (false, Some(("v", "new")), None, refused),
            (false, None, None, refused),
        ];
        for (upgradable, of_set, message, expect) in table {
            let entry = DesiredPod {
                owner: "SidecarSet/s".to_owned(),
                owner_uid: "u".to_owned(),
                upgradable: Some(upgradable),
                ..DesiredPod::default()
            };
            let set = of_set.map(|(uid, hash)| set(uid, hash));
            let said = match word(&entry, set.as_ref(), Some(&pod(message))) {
                Word::Write(condition) => condition.message,
                Word::Said => String::new(),
                Word::Refused(reason, _) => reason.name().to_owned(),
            };
            assert_eq!(said, expect, "{upgradable} {of_set:?} {message:?}");
            let gone = Word::Refused(FailureReason::PodGone, "pod has gone".to_owned());
            assert_eq!(word(&entry, set.as_ref(), None), gone);
        }
    }
}
