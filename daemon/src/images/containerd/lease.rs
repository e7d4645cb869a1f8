//! Leases that keep what a pull has loaded until its next attempt.
//!
//! A pull that is given up (its time was over, the registry or the agent went away) leaves blobs, whole and
//! in part, that no image refers to. containerd collects them within a second, and the next attempt would
//! begin at zero: one that is always cut off before its end would never get there. So as soon as its manifest
//! is known, its blobs are put under a lease of ours, from which the next attempt goes on. The lease goes
//! when the image is there or nobody wants it, and by itself after a while: what a killed agent leaves is not
//! kept for ever.
//!
//! Found on containerd 1.6.20: a lease may name blobs that do not exist yet, as `content` by digest and as
//! `ingests` by ref; a pull that finds its ref in part asks the registry for the rest.

use std::hash::{DefaultHasher, Hash, Hasher};

use containerd_client::services::v1::{
    AddResourceRequest, CreateRequest, DeleteRequest, Lease, ListRequest, Resource,
    leases_client::LeasesClient,
};
use jiff::Timestamp;
use tonic::{Code, Status, transport::Channel};

use super::{Containerd, in_namespace};

/// For which image a lease is; only leases with it are ours.
const OURS: &str = "berth.dev/pull";
/// containerd's own label: when a lease goes by itself, RFC 3339.
const EXPIRE: &str = "containerd.io/gc.expire";

impl Containerd {
    fn leases(&self) -> LeasesClient<Channel> {
        LeasesClient::new(self.channel.clone())
    }

    /// Keeps these blobs of an image, loaded or to be loaded, until then; leases of earlier attempts give way
    /// to it.
    pub(in crate::images) async fn keep(
        &self,
        image: &str,
        digests: impl Iterator<Item = &str>,
        until: Timestamp,
    ) -> Result<(), Status> {
        let now = Timestamp::now();
        let mut hasher = DefaultHasher::new();
        image.hash(&mut hasher);
        let id = format!("berth-{:016x}-{}", hasher.finish(), now.as_nanosecond());
        let labels = [(OURS, image.to_owned()), (EXPIRE, until.to_string())];
        let labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
        self.leases().create(in_namespace(CreateRequest { id: id.clone(), labels })).await?;
        for digest in digests {
            // A configuration is small, and goes by another ref.
            let layer = (format!("layer-{digest}"), "ingests");
            for (resource, kind) in [(digest.to_owned(), "content"), layer] {
                let resource = Some(Resource { id: resource, r#type: kind.to_owned() });
                self.leases()
                    .add_resource(in_namespace(AddResourceRequest { id: id.clone(), resource }))
                    .await?;
            }
        }
        self.release(image, now).await
    }

    /// Keeps no longer what was kept for pulls of an image that began before then.
    pub(in crate::images) async fn release(&self, image: &str, before: Timestamp) -> Result<(), Status> {
        let filters = vec![format!("labels.{OURS:?}=={image:?}")];
        let leases = self.leases().list(in_namespace(ListRequest { filters })).await?.into_inner().leases;
        for Lease { id, .. } in leases.into_iter().filter(|lease| began(lease) < before) {
            match self.leases().delete(in_namespace(DeleteRequest { id, sync: false })).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }
}

/// Returns when it was made, as its name says: containerd's own time has another beginning than ours.
fn began(lease: &Lease) -> Timestamp {
    let nanoseconds = lease.id.rsplit_once('-').and_then(|(_, at)| at.parse().ok());
    nanoseconds.and_then(|at| Timestamp::from_nanosecond(at).ok()).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_lease_says_when_it_was_made() {
        let lease = |id: &str| began(&Lease { id: id.to_owned(), ..Lease::default() });
        let at = Timestamp::from_nanosecond(1_800_000_000_123_456_789).unwrap();
        assert_eq!(lease(&format!("berth-00ff-{}", at.as_nanosecond())), at);
        assert_eq!(lease("berth"), Timestamp::MIN, "older than everything");
    }
}
