//! A disk that is nearly full, and pins that end: a node with nothing but a small disk, berthd and
//! `berthctl`.

use anyhow::{Context, Result, ensure};
use berth_tests::node::{Day, Gateway, Node, Registry, images};
use berth_tests::wait::await_condition;
use nix::sys::statvfs::statvfs;

use super::files::{entry, put};
use super::pins::is_pinned;
use super::scene::{PATIENCE, split};

const MIB: u64 = 1 << 20;
/// Size of the disk, in MiB.
const SIZE: u32 = 120;

#[tokio::test]
async fn images_that_do_not_fit_are_refused_and_pins_end() -> Result<()> {
    crate::slots::take().await;
    let node = Node::builder().api(false).kubelet(false).disk(SIZE).start().await?;
    let registry = Registry::start(node.run()).await?;
    let gateway = Gateway::open(registry.address()).await?;
    let disk = node.run().path("containerd/root");
    let free = || {
        let stat = statvfs(&disk)?;
        anyhow::Ok(stat.blocks_available() * stat.fragment_size())
    };
    let berthd = node.berthd()?;
    // Long enough to be seen.
    berthd.set_images("pinFor: 20s").await?;
    for (name, bytes) in [("large:v1", 40 * MIB), ("small:v1", MIB)] {
        registry.push(&images::sized(node.run(), name, usize::try_from(bytes)?).await?, name).await?;
    }
    let before = free()?;

    // Compressed it would fit, unpacked it would not.
    gateway.day(Day::Slow(MIB));
    let large = gateway.reference("large:v1");
    let refused = berthd.ctl(&["pull", "--retries", "0", &large]).await;
    let refused = format!("{:#}", refused.err().context("it was pulled")?);
    let place = format!(" {}", disk.display());
    ensure!(refused.contains("exit status: 1"), "{refused}");
    for part in [&format!("{large} needs about 12"), &place, " above the reserve of 16Mi"] {
        ensure!(refused.contains(part), "no {part:?} in {refused}");
    }
    ensure!(gateway.served() < 16 * MIB, "{} bytes came", gateway.served());
    await_condition("nothing of it stays", PATIENCE, async || {
        let (now, active) = (free()?, node.containerd().ctr(&["content", "active"]).await?);
        ensure!(active.lines().count() <= 1, "there is a download yet: {active}");
        ensure!(now + MIB > before, "{} bytes are missing", before.saturating_sub(now));
        Ok(())
    })
    .await?;

    gateway.day(Day::Good);
    let small = gateway.reference("small:v1");
    let done = berthd.ctl(&["pull", &small]).await?;
    ensure!(done.starts_with("Image is up to date for sha256:"), "{done}");
    ensure!(node.containerd().cri()?.image(&small).await?.is_some(), "not in the runtime");

    let (image, tag) = split(&small)?;
    put(&node, "small", &entry(image, tag))?;
    is_pinned(&node, &small, true).await?;
    is_pinned(&node, &small, false).await?;
    node.down()
}
