//! Claims in these histories: no pod loses its own, and those of pods that are scaled away go if they are to.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::*;

/// Pod that a claim goes with.
fn goes_with(claim: &ClaimView) -> Option<&str> {
    claim.owners.iter().find(|owner| owner.kind == "Pod").map(|owner| owner.uid.as_str())
}

impl History {
    /// Carries out a write, as the cluster does.
    pub(super) fn write(&mut self, action: Action) -> bool {
        match action {
            Action::CreateClaim(object) => {
                let claim: PersistentVolumeClaim = serde_json::from_value(object).unwrap();
                let mut claim = ClaimView::of(&claim);
                claim.version = self.played.version();
                claim.uid = format!("claim-{}", claim.version);
                assert!(self.claims.iter().all(|one| one.name != claim.name), "{} is made twice", claim.name);
                self.claims.push(claim);
                true
            }
            Action::PatchClaim(target, patch) => {
                let claim = self.claims.iter_mut().find(|claim| claim.uid == target.uid).unwrap();
                let owners = patch["metadata"]["ownerReferences"].clone();
                claim.owners = serde_json::from_value(owners).unwrap();
                true
            }
            other => {
                self.minds_claims(&other);
                self.played.write(other)
            }
        }
    }

    fn retention(&self, when: &str) -> bool {
        self.spec["persistentVolumeClaimRetentionPolicy"][when] == "Delete"
    }

    /// A pod is made with a claim that stays, and is deleted when that says what it goes with.
    fn minds_claims(&self, action: &Action) {
        let of = |pod: &str| self.claims.iter().find(|claim| claim.name == format!("data-{pod}"));
        match action {
            Action::CreatePod(object) if self.spec.get("volumeClaimTemplates").is_some() => {
                let name = object["metadata"]["name"].as_str().unwrap();
                let claim = of(name).unwrap_or_else(|| panic!("{name} has no claim"));
                let goes = claim.terminating || self.retention("whenScaled") && goes_with(claim).is_some();
                assert!(!goes, "{claim:?}");
            }
            Action::DeletePod(target) => {
                let Some(claim) = of(&target.name) else { return };
                let goes = self.retention("whenScaled") && !self.slots().contains(&number_of(&target.name));
                assert_eq!(goes_with(claim), goes.then_some(target.uid.as_str()), "{claim:?}");
            }
            _ => {}
        }
    }

    /// The garbage collector deletes the claims of pods that are gone, and those that somebody has deleted
    /// go when no pod has them any more.
    pub(super) fn collect_claims(&mut self) {
        let pods = &self.played.pods;
        self.claims.retain(|claim| {
            let is_owned = claim.owners.iter().any(|one| one.uid == "set" || pods.contains_key(&one.uid));
            let is_used = pods.values().any(|pod| claim.name == format!("data-{}", pod.name));
            is_used || !claim.terminating && (claim.owners.is_empty() || is_owned)
        });
    }

    /// Each pod has its claim, which goes with the set or with nothing.
    pub(super) fn claims_are_as_wanted(&self, slots: &[i64]) {
        if self.spec.get("volumeClaimTemplates").is_none() {
            assert!(self.claims.is_empty(), "{:?}", self.claims);
            return;
        }
        for slot in slots {
            let claim = self.claims.iter().find(|claim| claim.name == format!("data-db-{slot}"));
            let owners: Vec<&str> = claim.unwrap().owners.iter().map(|owner| owner.uid.as_str()).collect();
            assert_eq!(owners.contains(&"set"), self.retention("whenDeleted"), "{slot}: {owners:?}");
        }
        assert!(self.claims.iter().all(|claim| goes_with(claim).is_none()), "{:?}", self.claims);
    }
}
