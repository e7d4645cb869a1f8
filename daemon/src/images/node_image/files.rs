//! `NodeImage`s that are files of the desired-state directory, for nodes without an API server.
//!
//! A file's `spec.images` is what it asks for; its status is written beside it, as that of a request is. It
//! has no node's name to match: a file is about the node it is on. What has ended stays so in the status
//! file, so a restart pulls nothing twice.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use berth_policy::{ImageEvent, WishReport, WishSource};
use berth_proto::crd::{NodeImage, NodeImageStatus};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::Resource;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    SharedImages,
    status::{self, Told},
    wishes::{self, NodeImageWishes},
};
use crate::{
    base::{causes::chain, clock::Clock, deadline::later, status::whole_second, yaml},
    files::{FileError, Follower, Look, node_image, status_of, store},
};

/// Pause between two writes of nothing but progress, and before a failed write is tried again.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause after a change, in which further ones are collected and told together.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// The files.
#[derive(Debug)]
pub(crate) struct ImageFiles {
    images: Arc<SharedImages>,
    follower: Follower,
    pin: Option<Duration>,
    files: BTreeMap<PathBuf, Content>,
    clock: Clock,
}

/// Part of a status file that is read.
#[derive(Deserialize)]
struct Written {
    status: NodeImageStatus,
}

#[derive(Debug)]
struct Content {
    asked: NodeImageWishes,
    /// Status that was written for it, and when by this process.
    status: NodeImageStatus,
    written: Option<Instant>,
    /// The last write failed for this reason.
    trouble: Option<String>,
}

impl ImageFiles {
    /// The files of this directory; it is not looked at yet.
    pub(crate) fn new(images: Arc<SharedImages>, directory: PathBuf, pin: Option<Duration>) -> Self {
        let belongs =
            |content: &io::Result<String>| content.as_ref().is_ok_and(|text| node_image::is_one(text));
        let follower = Follower::new(vec![directory], belongs);
        Self { images, follower, pin, files: BTreeMap::new(), clock: Clock::read() }
    }

    /// Looks whenever something may have changed, and tells what becomes of the images, until the shutdown.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        // Cancel-safe at all awaits: what is written is written whole.
        shutdown.run_until_cancelled(self.turns()).await;
    }

    async fn turns(&mut self) {
        let mut changes = self.images.news();
        loop {
            let look = self.follower.look().await;
            self.take(look).await;
            loop {
                changes.mark_unchanged();
                let again = self.tell().await;
                let again = async {
                    match again {
                        Some(at) => sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                // Cancel-safe: what was told is told again, a number, and a timer.
                tokio::select! {
                    () = self.follower.wait(false) => break,
                    changed = changes.changed() => match changed {
                        Ok(()) => sleep(DEBOUNCE).await,
                        Err(_) => return,
                    },
                    () = again => {}
                }
            }
        }
    }

    async fn take(&mut self, look: Look) {
        let mut changed = false;
        for path in look.gone {
            changed |= Self::gone(&path, self.files.remove(&path)).await;
        }
        for (path, content) in look.there {
            let content = match content {
                Some(Ok(text)) => self.read(&path, &text).await,
                Some(Err(source)) => Err(FileError::Read { path: path.clone(), source }),
                None => continue,
            };
            match content {
                Ok(Some(content)) => {
                    changed = true;
                    self.files.insert(path, content);
                }
                Ok(None) => {}
                Err(error) => {
                    warn!(error = %chain(&error), "NodeImage not read, trying every second");
                    self.follower.again(&path);
                }
            }
        }
        if changed {
            let wishes = self.files.values().flat_map(|content| content.asked.wishes.clone()).collect();
            self.images.apply(ImageEvent::WishesListed(WishSource::File, wishes));
        }
    }

    /// Removes the status of a file that went; whether it asked for anything.
    async fn gone(path: &Path, file: Option<Content>) -> bool {
        if file.is_none() {
            return false;
        }
        info!(file = ?path, "NodeImage removed");
        if let Err(error) = store::remove(&status_of(path)).await {
            warn!(error = %chain(&error), "Status of a removed NodeImage not removed");
        }
        true
    }

    async fn read(&self, path: &Path, text: &str) -> Result<Option<Content>, FileError> {
        let Some(object) = node_image::read(text) else { return Ok(None) };
        let status = store::read(&status_of(path)).await?;
        // One that cannot be read is written anew: what it said can be found out again from the runtime.
        let written = status.and_then(|text| yaml::from_str::<Written>(&text).ok());
        let status = written.map(|written| written.status).unwrap_or_default();
        let asked = match object {
            Ok(mut object) => {
                object.status = Some(NodeImageStatus { desired_images: Vec::new(), ..status.clone() });
                wishes::asked(&object, WishSource::File, &prefix(path), self.pin)
            }
            Err(fault) => faulty(self.files.get(path).map(|content| &content.asked), fault),
        };
        info!(file = ?path, images = asked.wishes.len(), faults = ?asked.faults, "NodeImage read");
        Ok(Some(Content { asked, status, written: None, trouble: None }))
    }

    /// Writes what is to be told; when there is more to write in any case.
    async fn tell(&mut self) -> Option<Instant> {
        let reports = self.images.reports();
        self.clock = self.clock.kept(Clock::read());
        let mut again: Option<Instant> = None;
        let mut at = |due: Instant| again = Some(again.map_or(due, |again| again.min(due)));
        for (path, content) in &mut self.files {
            let status = content.owed(path, &reports, &self.clock);
            if status == content.status {
                continue;
            }
            let only_progress =
                status::without_progress(&status) == status::without_progress(&content.status);
            let soonest = content.written.map(|written| later(written, PERIOD));
            let waits = soonest
                .filter(|soonest| (only_progress || content.trouble.is_some()) && *soonest > Instant::now());
            if let Some(soonest) = waits {
                at(soonest);
                continue;
            }
            content.written = Some(Instant::now());
            match write(path, &status).await {
                Ok(()) => (content.status, content.trouble) = (status, None),
                Err(error) => {
                    let error = chain(&error);
                    if content.trouble.as_ref() != Some(&error) {
                        warn!(error, "Status of a NodeImage not written, trying every second");
                    }
                    content.trouble = Some(error);
                    at(later(Instant::now(), PERIOD));
                }
            }
        }
        again
    }
}

impl Content {
    fn owed(&self, path: &Path, reports: &[WishReport], clock: &Clock) -> NodeImageStatus {
        let prefix = prefix(path);
        let own = reports.iter().filter(|report| {
            report.id.source == WishSource::File && report.id.key.starts_with(prefix.as_str())
        });
        let own: Vec<WishReport> = own.cloned().collect();
        let told = Told { reports: &own, prefix: &prefix, faults: &self.asked.faults, sealing_key: None };
        status::status(&told, &self.status, clock, Time(whole_second(Timestamp::now())))
    }
}

/// Wishes of a file that is wrong: what it asked for `before` is wanted until it says something else.
fn faulty(before: Option<&NodeImageWishes>, fault: String) -> NodeImageWishes {
    let wishes = before.map(|before| before.wishes.clone()).unwrap_or_default();
    NodeImageWishes { wishes, faults: vec![fault] }
}

/// Makes the prefix by which the wishes of a file are told apart. No file name has the character in it.
fn prefix(path: &Path) -> String {
    format!("{}\0", path.display())
}

async fn write(path: &Path, status: &NodeImageStatus) -> Result<(), FileError> {
    let to = status_of(path);
    let object = json!({
        "apiVersion": NodeImage::api_version(&()),
        "kind": NodeImage::kind(&()),
        "status": status,
    });
    let failed = |error| FileError::Write { path: to.clone(), source: io::Error::other(error) };
    let text = serde_saphyr::to_string(&object).map_err(failed)?;
    store::write(&to, text).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An edit that goes wrong takes nothing back.
    #[test]
    fn a_file_that_becomes_wrong_asks_for_what_it_did() {
        let object = serde_json::from_value(json!({
            "metadata": { "name": "" }, "spec": { "images": { "app": { "tags": [{ "tag": "v1" }] } } },
        }));
        let before = wishes::asked(&object.expect("an object"), WishSource::File, "", None);
        for (before, wanted) in [(None, 0), (Some(&before), 1)] {
            let asked = faulty(before, "spec.image: unknown field".to_owned());
            assert_eq!((asked.wishes.len(), asked.faults.len()), (wanted, 1));
        }
    }
}
