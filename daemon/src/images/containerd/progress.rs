//! How far one pull is, in bytes.
//!
//! The CRI says nothing until a pull is over. But its blobs are in the content store while it goes on: the
//! manifest says how large they are, the store which of them are there, and its statuses how much of the
//! others. No two pulls of ours are of one repository at the same time, so a manifest of the repository that
//! came since the pull began is the pull's, or one that was there and whose layers are downloaded now. Only
//! the kubelet may pull from there as well: then it is the newest.
//!
//! Layers that a node has unpacked and thrown away (`discard_unpacked_layers`) are not fetched again and
//! never count as done: the pull ends before it is at 100 %.

use std::{
    collections::HashSet,
    time::{SystemTime, UNIX_EPOCH},
};

use berth_policy::{Bytes, ImageReference};
use berth_proto::image::Reference;
use containerd_client::services::v1::Info;
use tonic::Status;

use super::{
    Containerd, Download,
    manifest::{Document, Manifest},
};

const SOURCE_LABEL: &str = "containerd.io/distribution.source.";
const CONFIG_LABEL: &str = "containerd.io/gc.ref.content.config";
const CHILD_LABEL: &str = "containerd.io/gc.ref.content.";

/// Watches one pull.
#[derive(Debug)]
pub(in crate::images) struct Progress {
    containerd: Containerd,
    digest: Option<String>,
    /// The label of the registry's blobs.
    source: String,
    repository: String,
    /// Seconds and nanoseconds since the epoch, by the clock that containerd has as well.
    began: (i64, i32),
    manifest: Option<Manifest>,
    /// The blob that should be the manifest is none, or too large. A digest names the same for ever, so it is
    /// not read again.
    unreadable: bool,
    /// Blobs that are there: they are asked for once, and count even if they are thrown away once they are
    /// unpacked.
    there: HashSet<String>,
}

impl Progress {
    /// Makes the progress of a pull that begins now.
    pub(in crate::images) fn new(containerd: Containerd, image: &ImageReference) -> Self {
        let reference: Option<Reference> = image.given.parse().ok();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            containerd,
            digest: reference.and_then(|reference| reference.digest().map(str::to_owned)),
            source: format!("{SOURCE_LABEL}{}", host(&image.registry)),
            repository: image.repository.to_string(),
            began: (
                since.as_secs().try_into().unwrap_or(i64::MAX),
                since.subsec_nanos().try_into().unwrap_or(0),
            ),
            manifest: None,
            unreadable: false,
            there: HashSet::new(),
        }
    }

    /// Returns how far it is now; `None` as long as its manifest is not known.
    pub(in crate::images) async fn look(&mut self) -> Result<Option<Bytes>, Status> {
        if self.unreadable {
            return Ok(None);
        }
        // The downloads first: one that ends in between is found as a blob after it.
        let downloads = self.containerd.downloads().await?;
        if self.manifest.is_none() {
            self.manifest = self.find(&downloads).await?;
        }
        let Some(manifest) = &self.manifest else { return Ok(None) };
        let total = manifest.total();
        let mut done = 0_u64;
        for blob in &manifest.blobs {
            if !self.there.contains(&blob.digest) {
                if let Some(download) = download_of(&downloads, &blob.digest) {
                    done = done.saturating_add(download.offset.min(blob.size));
                    continue;
                }
                if self.containerd.info(&blob.digest).await?.is_none() {
                    continue;
                }
                self.there.insert(blob.digest.clone());
            }
            done = done.saturating_add(blob.size);
        }
        Ok(Some(Bytes { done, total }))
    }

    /// The blobs of the image, once its manifest is known.
    pub(in crate::images) fn digests(&self) -> Option<impl Iterator<Item = &str>> {
        let manifest = self.manifest.as_ref()?;
        Some(manifest.blobs.iter().map(|blob| blob.digest.as_str()))
    }

    async fn find(&mut self, downloads: &[Download]) -> Result<Option<Manifest>, Status> {
        let digest = match &self.digest {
            Some(digest) => Some(digest.clone()),
            None => self.newest(downloads).await?,
        };
        let Some(digest) = digest else { return Ok(None) };
        match self.document(&digest).await? {
            Some(Document::Image(manifest)) => Ok(Some(manifest)),
            Some(Document::Index(children)) => {
                let mut present = Vec::new();
                for child in children {
                    if self.containerd.info(&child.digest).await?.is_some() {
                        present.push(child);
                    }
                }
                let child = present.iter().find(|child| child.fits()).or(present.first());
                let Some(child) = child else { return Ok(None) };
                match self.document(&child.digest).await? {
                    Some(Document::Image(manifest)) => Ok(Some(manifest)),
                    Some(Document::Index(_)) | None => Ok(None),
                }
            }
            None => Ok(None),
        }
    }

    async fn document(&mut self, digest: &str) -> Result<Option<Document>, Status> {
        let Some(bytes) = self.containerd.read(digest).await? else { return Ok(None) };
        let document = Document::parse(&bytes);
        self.unreadable = document.is_none();
        Ok(document)
    }

    async fn newest(&self, downloads: &[Download]) -> Result<Option<String>, Status> {
        let manifests = self.containerd.labelled(&self.source, CONFIG_LABEL).await?;
        let ours = manifests.into_iter().filter(|info| of_repository(info, &self.source, &self.repository));
        Ok(touched_last(ours, downloads, self.began))
    }
}

/// Chooses, among the manifests of a repository, the one that a pull since then is about.
fn touched_last(
    manifests: impl Iterator<Item = Info>,
    downloads: &[Download],
    since: (i64, i32),
) -> Option<String> {
    let touched = manifests.filter(|info| moved(info) >= since || is_under_way(info, downloads, since));
    touched.max_by_key(moved).map(|info| info.digest)
}

/// The host without its port: containerd labels blobs with it.
fn host(registry: &str) -> &str {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => registry,
    };
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// A blob that several repositories share names them all.
fn of_repository(info: &Info, source: &str, repository: &str) -> bool {
    info.labels.get(source).is_some_and(|all| all.split(',').any(|one| one == repository))
}

/// Returns when it was last changed; some versions leave the time of the change at the year 1.
fn moved(info: &Info) -> (i64, i32) {
    let times = [info.created_at.as_ref(), info.updated_at.as_ref()].into_iter().flatten();
    times.map(|at| (at.seconds, at.nanos)).max().unwrap_or_default()
}

/// Tells whether one of its layers has grown since: the case of an image whose manifest was there and whose
/// layers were not. What a pull that was given up has left of another image does not grow.
fn is_under_way(info: &Info, downloads: &[Download], since: (i64, i32)) -> bool {
    let mut children = info.labels.iter().filter(|(label, _)| label.starts_with(CHILD_LABEL));
    children.any(|(_, digest)| download_of(downloads, digest).is_some_and(|one| one.written >= since))
}

fn download_of<'a>(downloads: &'a [Download], digest: &str) -> Option<&'a Download> {
    downloads.iter().find(|download| {
        let name = download.name.as_str();
        let named = name.strip_prefix("layer-").or_else(|| name.strip_prefix("config-"));
        named.is_some_and(|named| named == digest)
    })
}

#[cfg(test)]
#[path = "../tests/progress.rs"]
mod tests;
