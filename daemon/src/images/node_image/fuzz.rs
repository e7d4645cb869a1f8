//! `NodeImage`s as an API server, or a file, could show them.

use std::time::{Duration, Instant};

use berth_policy::{ImageEvent, ImageLimits, Images, WishSource};
use berth_proto::crd::NodeImage;
use k8s_openapi::jiff::Timestamp;

use super::{spec, wishes};

/// Every image that is asked for is a wish or a fault that names its field; the policy plans within its
/// limits.
pub fn node_image(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<NodeImage>(data) else { return };
    let asked = wishes::asked(&object, WishSource::Api, "", Some(Duration::from_secs(3600)));
    let tags = object.spec.images.values().flat_map(|image| &image.tags);
    let tags = tags.filter(|tag| !spec::is_copy(tag)).count();
    let desired = object.status.as_ref().map_or(0, |status| status.desired_images.len());
    assert_eq!(asked.wishes.len() + asked.faults.len(), tags + desired);
    assert!(
        asked.faults.iter().all(|fault| fault.starts_with("spec.images") || fault.starts_with("status."))
    );
    let status = object.status.clone().unwrap_or_default();
    // Read without a panic, and of no other names.
    let due = spec::due(&object.spec.images, &status, spec::copies(&status), Timestamp::UNIX_EPOCH);
    assert!(due.changes.len() <= object.spec.images.len() + status.desired_images.len());
    let mut images = Images::new(ImageLimits { parallel: 3, per_registry: 2, seed: 0 });
    let begin = Instant::now();
    images.apply(ImageEvent::WishesListed(WishSource::Api, asked.wishes), begin);
    for now in [begin, begin + Duration::from_secs(3600)] {
        images.plan(now);
        // Read without a panic.
        let _ = images.next_deadline();
    }
}
