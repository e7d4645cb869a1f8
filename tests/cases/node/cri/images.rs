//! Images that are on the node.

use anyhow::{Context, Result};
use berth_proto::cri::*;
use berth_tests::compare::RemoveImageRequest;
use berth_tests::node::images::BUSYBOX;

use super::same;

fn spec(image: &str) -> Option<ImageSpec> {
    Some(ImageSpec { image: image.to_owned(), ..Default::default() })
}

#[tokio::test]
async fn image_by_all_its_names() -> Result<()> {
    let shows = ["by name: true", "by id: true", "by short id: true", "by no name: false"];
    same("image_by_all_its_names", &shows, async |way| {
        let status = async |name: &str, image: &str| {
            let request = ImageStatusRequest { image: spec(image), verbose: false };
            let found = way.must(request).await?.image;
            way.say(format!("{name}: {}", found.is_some()));
            way.say(format!("  {found:?}"));
            anyhow::Ok(found)
        };
        let id = status("by name", BUSYBOX).await?.context("no busybox")?.id;
        status("by id", &id).await?;
        status("by short id", id.strip_prefix("sha256:").context("no digest")?).await?;
        status("by no name", "berth.test/no-such-image:1").await.map(drop)
    })
    .await
}

#[tokio::test]
async fn image_with_a_name_that_is_none() -> Result<()> {
    same("image_with_a_name_that_is_none", &["ImageStatus: "], async |way| {
        way.ask(ImageStatusRequest { image: spec("Not A Name"), verbose: false }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn removal_of_an_image_that_is_not_there() -> Result<()> {
    same("removal_of_an_image_that_is_not_there", &["RemoveImage: OK"], async |way| {
        way.must(RemoveImageRequest { image: spec("berth.test/no-such-image:1") }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn file_system_of_the_images() -> Result<()> {
    same(
        "file_system_of_the_images",
        &["ImageFsInfo: OK", "io.containerd.snapshotter.v1.overlayfs"],
        async |way| {
            let answer = way.must(ImageFsInfoRequest {}).await?;
            for file_system in answer.image_filesystems {
                way.say(format!("  {:?} at a time {}", file_system.fs_id, file_system.timestamp > 0));
            }
            Ok(())
        },
    )
    .await
}
