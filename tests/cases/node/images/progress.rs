//! Progress of a pull while it goes on.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::{ImagePhase, NodeImageStatus};
use berth_tests::node::Day;
use serde_json::{Value, json};

use super::scene::{Wanted, behind_gateway, is_phase, pulls, registry, split};
use crate::case::{Case, run_alone};

/// containerd shows a download in steps of 1 MiB, so several of them have to come each second: else its steps
/// are what keeps the agent from telling more often.
const SIZE: usize = 40 << 20;
/// Bytes a second.
const RATE: u64 = 3 << 20;

/// Alone, because whatever changes for others is told at once, and progress with it.
#[tokio::test]
async fn images_progress_is_told_in_bytes_and_once_a_second() -> Result<()> {
    run_alone("images_progress", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let (gateway, reference) = behind_gateway(case, registry, "progress:v1", SIZE).await?;
        gateway.day(Day::Slow(RATE));
        let (name, _) = split(&reference)?;
        let story = wanted.listen();
        wanted.ask(name, json!({ "tags": [{ "tag": "v1" }] })).await?;
        let bytes = RefCell::new(Vec::new());
        let look = async {
            loop {
                for pull in pulls(case.node, &reference).await? {
                    let number = |field: &str| pull[field].as_str()?.parse::<u64>().ok();
                    let seen = number("bytesDone").zip(number("bytesTotal"));
                    bytes.borrow_mut().push(seen.with_context(|| pull.to_string())?);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::select! {
            told = wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)) => drop(told?),
            Err::<(), anyhow::Error>(error) = look => return Err(error),
        }

        let bytes: Vec<_> = bytes.into_inner().into_iter().filter(|(_, total)| *total > 0).collect();
        ensure!(bytes.iter().all(|(done, total)| done <= total && *total > SIZE as u64), "{bytes:?}");
        ensure!(bytes.is_sorted_by_key(|(done, _)| *done), "bytes were lost: {bytes:?}");
        let mut steps: Vec<u64> = bytes.iter().map(|(done, _)| *done).filter(|done| *done > 0).collect();
        steps.dedup();
        ensure!(steps.len() >= 5, "{steps:?}");

        let story = story.so_far();
        let mut percents = Vec::new();
        for (_, status) in &story {
            let Some(tag) = status.image_statuses.get(name).and_then(|image| image.tags.first()) else {
                continue;
            };
            let percent = tag.progress.context("no progress")?;
            ensure!((percent == 100) == (tag.phase == ImagePhase::Succeeded), "{tag:?}");
            percents.push(percent);
        }
        ensure!(percents.is_sorted(), "{percents:?}");
        let mut between: Vec<_> = percents.into_iter().filter(|percent| (1..100).contains(percent)).collect();
        between.dedup();
        ensure!(between.len() >= 3, "{between:?}");

        // It is looked at twice a second, and told once.
        let writes: Vec<_> = story.windows(2).filter(|pair| is_progress(&pair[0].1, &pair[1].1)).collect();
        let (first, last) = (writes.first().context("no writes")?, writes.last().context("no writes")?);
        let took = last[1].0.duration_since(first[1].0).as_secs_f64();
        // Told as often as it is looked at they would be twice as many. Who gets no turn hears several at
        // once, but the pull takes as long as its bytes do.
        let most = took.max(SIZE as f64 / RATE as f64) * 1.5 + 1.0;
        ensure!((writes.len() as f64) <= most, "{} writes of progress in {took} s", writes.len());
        ensure!(took > 3.0, "all of it within {took} s");
        wanted.ask(name, Value::Null).await
    })
    .await
}

/// Nothing but progress is another one.
fn is_progress(before: &NodeImageStatus, after: &NodeImageStatus) -> bool {
    let bare = |status: &NodeImageStatus| {
        let mut status = status.clone();
        status
            .image_statuses
            .values_mut()
            .flat_map(|image| &mut image.tags)
            .for_each(|tag| tag.progress = None);
        status
    };
    before != after && bare(before) == bare(after)
}
