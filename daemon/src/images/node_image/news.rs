//! Events of pulls that have ended, by OpenKruise's reasons: on the NodeImage, and failures also on the jobs
//! that want the image.

use std::time::Duration;

use berth_proto::{
    crd::{DesiredImage, ImagePhase, NodeImageStatus},
    image::Reference,
};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

/// Events that may be written at once. Nothing depends on one.
pub(super) const BURST: usize = 25;
/// Pause after which one more may be.
const EVERY: Duration = Duration::from_secs(10);

/// Event that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct News {
    /// Job that it is about; `None`: the NodeImage.
    pub(super) job: Option<ObjectReference>,
    pub(super) failed: bool,
    pub(super) note: String,
}

impl News {
    pub(super) const fn reason(&self) -> &'static str {
        if self.failed { "PullImageFailed" } else { "PullImageSucceed" }
    }
}

/// Events that may still be written.
#[derive(Debug)]
pub(super) struct Allowance {
    left: usize,
    since: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BURST, since: now }
    }

    pub(super) fn take(&mut self, now: Instant) -> bool {
        let more = now.saturating_duration_since(self.since).as_secs() / EVERY.as_secs();
        if more > 0 {
            self.left = self.left.saturating_add(usize::try_from(more).unwrap_or(BURST)).min(BURST);
            self.since = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// Tells which pulls have ended between these two statuses.
pub(super) fn ended(before: &NodeImageStatus, now: &NodeImageStatus, desired: &[DesiredImage]) -> Vec<News> {
    let mut news = Vec::new();
    for (name, image) in &now.image_statuses {
        let before = before.image_statuses.get(name).map_or(&[][..], |before| &before.tags);
        for tag in image.tags.iter().filter(|tag| has_ended(tag.phase)) {
            let before = before.iter().find(|before| before.tag == tag.tag);
            if before.is_some_and(|before| before.phase == tag.phase && before.version == tag.version) {
                continue;
            }
            let of = format!("image {name}, {}", tag.tag);
            let failed = tag.phase == ImagePhase::Failed;
            let note = match &tag.message {
                Some(why) if failed => format!("{of}: {why}"),
                _ if failed => format!("{of}: not pulled"),
                _ => format!("{of}: it is on the node"),
            };
            if failed {
                let wants = |one: &&DesiredImage| is_of(one, name, &tag.tag);
                let jobs = desired.iter().filter(wants).filter_map(job);
                news.extend(jobs.map(|job| News { job: Some(job), failed, note: note.clone() }));
            }
            news.push(News { job: None, failed, note });
        }
    }
    news
}

fn has_ended(phase: ImagePhase) -> bool {
    matches!(phase, ImagePhase::Succeeded | ImagePhase::Failed)
}

fn is_of(desired: &DesiredImage, name: &str, entry: &str) -> bool {
    let reference = desired.image.parse::<Reference>();
    reference.is_ok_and(|reference| reference.familiar_name() == name && reference.entry() == entry)
}

fn job(desired: &DesiredImage) -> Option<ObjectReference> {
    let by = desired.wanted_by.as_ref().filter(|by| by.kind == "ImagePullJob")?;
    Some(ObjectReference {
        api_version: Some("apps.kruise.io/v1alpha1".to_owned()),
        kind: Some(by.kind.clone()),
        namespace: Some(by.namespace.clone()),
        name: Some(by.name.clone()),
        uid: Some(desired.uid.clone()),
        ..ObjectReference::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::deadline::later;

    fn status(tags: Value) -> NodeImageStatus {
        serde_json::from_value(json!({ "imageStatuses": { "app": { "tags": tags } } })).expect("a status")
    }

    fn tag(phase: &str, version: i64) -> Value {
        json!({ "tag": "v1", "phase": phase, "version": version, "message": "no such image" })
    }

    #[test]
    fn each_end_is_told_once() {
        let wanted = json!([
            { "uid": "j", "image": "docker.io/library/app:v1",
              "wantedBy": { "kind": "ImagePullJob", "namespace": "shop", "name": "job" } },
            { "uid": "k", "image": "app:v2",
              "wantedBy": { "kind": "ImagePullJob", "namespace": "shop", "name": "other" } },
        ]);
        let desired: Vec<DesiredImage> = serde_json::from_value(wanted).expect("wishes");
        let (none, of_node) = (json!([]), "the node");
        for (what, before, now, expected) in [
            ("it waits", none.clone(), tag("Waiting", 1), vec![]),
            ("it was there at once", none.clone(), tag("Succeeded", 1), vec![("PullImageSucceed", of_node)]),
            ("pulled", json!([tag("Pulling", 1)]), tag("Succeeded", 1), vec![("PullImageSucceed", of_node)]),
            ("told before", json!([tag("Succeeded", 1)]), tag("Succeeded", 1), vec![]),
            ("anew", json!([tag("Succeeded", 1)]), tag("Succeeded", 2), vec![("PullImageSucceed", of_node)]),
            (
                "failed",
                json!([tag("Pulling", 1)]),
                tag("Failed", 1),
                vec![("PullImageFailed", "job"), ("PullImageFailed", of_node)],
            ),
        ] {
            let news = ended(&status(before), &status(json!([now])), &desired);
            let about = |news: &News| news.job.as_ref().and_then(|job| job.name.clone());
            let about = |news: &News| about(news).unwrap_or_else(|| of_node.to_owned());
            let told: Vec<_> = news.iter().map(|news| (news.reason(), about(news))).collect();
            let told: Vec<_> = told.iter().map(|(reason, about)| (*reason, about.as_str())).collect();
            assert_eq!(told, expected, "{what}");
            assert!(news.iter().all(|news| !news.failed || news.note.ends_with("no such image")), "{what}");
        }
    }

    #[test]
    fn events_are_few() {
        let begun = Instant::now();
        let mut allowance = Allowance::new(begun);
        let mut taken = |after: u64| {
            let now = later(begun, Duration::from_secs(after));
            (0..100).filter(|_| allowance.take(now)).count()
        };
        assert_eq!([taken(0), taken(9), taken(10), taken(39)], [25, 0, 1, 2]);
        assert_eq!(taken(10_000), 25);
    }
}
