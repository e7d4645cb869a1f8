//! Pins: images that the kubelet's image collection leaves alone.
//!
//! The CRI shows an image as pinned whose record has a certain label. Ours have a second one that says until
//! when, so that a restarted agent finds its own pins, and leaves those of others (the sandbox image) alone.
//!
//! Only these two labels are written, each named in the field mask: what others have put there is never read
//! and written back.
//!
//! Found on containerd 1.6.20:
//! - The mask is `labels.<key>`; an empty value takes the label away; the other labels stay.
//! - An image has a record `<name>:<tag>` and one `<name>@<digest>`; pulled by digest, with a tag or without,
//!   only the latter.
//! - **A pull of an image that is there, whoever asks for it, writes the record anew, without our labels**: a
//!   pin is to be set after a pull, and again after each other pull of the image.
//! - Its CRI does not know pins yet and shows none to the kubelet: the labels do no harm, and keep nothing.
//!
//! Found on containerd 2.2.5: an update whose image has no target ends the whole of containerd (a nil
//! dereference in its image service), although the mask does not name the target. So there is always one,
//! empty, and the mask keeps it from being written.

use berth_proto::image::Reference;
use containerd_client::services::v1::{ListImagesRequest, UpdateImageRequest};
use jiff::Timestamp;
use tonic::{Code, Status};

use super::{Containerd, in_namespace};

const PINNED: (&str, &str) = ("io.cri-containerd.pinned", "pinned");
const UNTIL: &str = "berth.dev/pinned-until";

impl Containerd {
    /// Pins the record of this name. `false`: there is none.
    pub(in crate::images) async fn pin(&self, record: &str, until: Timestamp) -> Result<bool, Status> {
        self.label(record, PINNED.1, &until.to_string()).await
    }

    /// Takes the pin away. `false`: there is no such record.
    pub(in crate::images) async fn unpin(&self, record: &str) -> Result<bool, Status> {
        self.label(record, "", "").await
    }

    async fn label(&self, record: &str, pinned: &str, until: &str) -> Result<bool, Status> {
        match self.images().update(in_namespace(labelled(record, pinned, until))).await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// The records that we pinned, and until when. One whose end cannot be read ended long ago.
    pub(in crate::images) async fn pins(&self) -> Result<Vec<(String, Timestamp)>, Status> {
        let request = ListImagesRequest { filters: vec![format!("labels.{UNTIL:?}")] };
        let images = self.images().list(in_namespace(request)).await?.into_inner().images;
        let ours = images.into_iter().filter_map(|image| {
            let until = image.labels.get(UNTIL)?.parse().unwrap_or(Timestamp::UNIX_EPOCH);
            Some((image.name, until))
        });
        Ok(ours.collect())
    }
}

fn labelled(record: &str, pinned: &str, until: &str) -> UpdateImageRequest {
    let mut update = UpdateImageRequest::default();
    let image = update.image.get_or_insert_default();
    image.name = record.to_owned();
    image.target.get_or_insert_default();
    image.labels =
        [(PINNED.0, pinned), (UNTIL, until)].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    update.update_mask.get_or_insert_default().paths =
        vec![format!("labels.{}", PINNED.0), format!("labels.{UNTIL}")];
    update
}

/// The name of an image's record, from whatever text names the image.
pub(crate) fn record_name(reference: &str) -> String {
    // An `Image.id` is a record, and looks like a name with a tag.
    if reference.starts_with("sha256:") {
        return reference.to_owned();
    }
    reference.parse::<Reference>().map_or_else(|_| reference.to_owned(), |parsed| parsed.record())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_has_a_target_and_does_not_write_it() {
        let update = labelled("example.com/app:v1", "pinned", "2026-01-01T00:00:00Z");
        assert!(update.image.unwrap().target.is_some(), "without one containerd 2.2 ends");
        assert_eq!(
            update.update_mask.unwrap().paths,
            ["labels.io.cri-containerd.pinned", "labels.berth.dev/pinned-until"]
        );
    }

    #[test]
    fn records() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let table = [
            ("busybox".to_owned(), "docker.io/library/busybox:latest".to_owned()),
            ("127.0.0.1:5000/team/app:v1".to_owned(), "127.0.0.1:5000/team/app:v1".to_owned()),
            (format!("example.com/app@{digest}"), format!("example.com/app@{digest}")),
            (format!("example.com/app:v1@{digest}"), format!("example.com/app@{digest}")),
            (digest.clone(), digest.clone()),
        ];
        for (reference, record) in table {
            assert_eq!(record_name(&reference), record);
            assert_eq!(record_name(&record), record);
        }
    }
}
