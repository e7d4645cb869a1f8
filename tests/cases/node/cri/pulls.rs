//! Pulls from a registry of the run's own, which berthd looks at and may answer itself, for its agent pulls
//! as well.

use anyhow::{Context, Result, ensure};
use berth_proto::cri::*;
use berth_tests::compare::{PATIENCE, RemoveImageRequest};
use berth_tests::node::{PASSWORD, Registry, USER, images};
use berth_tests::wait::await_condition;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::same;
use super::way::Way;

fn pull(image: &str) -> PullImageRequest {
    PullImageRequest {
        image: Some(ImageSpec { image: image.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}

/// An image that nobody has but this way, in a registry. The runtime keeps images by what is in them: two
/// ways that pulled the same bytes would remove each other's image.
async fn image(way: &Way, registry: &Registry) -> Result<String> {
    let name = format!("berth.test/{}-{}:1", way.token(), way.case.replace('_', "-"));
    let archive = images::sized(way.bench.node.run(), &name, 4096).await?;
    let pushed = registry.push(&archive, name.rsplit('/').next().context("a name")?).await?;
    std::fs::remove_file(archive)?;
    way.hide(registry.address(), "registry");
    Ok(pushed)
}

/// Writes down what the runtime has of an image.
async fn say(way: &Way, image: &str) -> Result<Option<Image>> {
    let image = Some(ImageSpec { image: image.to_owned(), ..Default::default() });
    let found = way.must(ImageStatusRequest { image, verbose: false }).await?.image;
    match &found {
        None => way.say("  not there"),
        Some(found) => {
            way.hide(&found.id, "image");
            for digest in &found.repo_digests {
                way.hide(digest.rsplit('@').next().unwrap_or_default(), "digest");
            }
            way.say(format!("  {} {:?} {:?}", found.id, found.repo_tags, found.repo_digests));
            way.say(format!("  size {} pinned {}", found.size > 0, found.pinned));
        }
    }
    Ok(found)
}

#[tokio::test]
async fn image_comes_and_goes() -> Result<()> {
    let shows = [
        "not there",
        "PullImage: OK",
        "<image>",
        "<registry>/<side>-image-comes-and-goes:1",
        "by digest",
        "PullImage: OK",
        "exit 0",
        "RemoveImage: OK",
        "not there",
    ];
    same("image_comes_and_goes", &shows, async |way| {
        let reference = image(way, &way.bench.registry).await?;
        say(way, &reference).await?;
        let answer = way.must(pull(&reference)).await?;
        way.say(answer.image_ref);
        let found = say(way, &reference).await?.context("no image after the pull")?;
        way.say("by digest");
        say(way, found.repo_digests.first().context("no digest")?).await?;
        // Once more: it is there already.
        let answer = way.must(pull(&reference)).await?;
        way.say(answer.image_ref);
        let mut config = way.script("c", "test -e /data");
        config.image.get_or_insert_default().image = found.id.clone();
        let id = way.started(way.home().await?, config).await?;
        way.exited(&id).await?;
        way.must(RemoveContainerRequest { container_id: id }).await?;
        let by_id = Some(ImageSpec { image: found.id, ..Default::default() });
        way.must(RemoveImageRequest { image: by_id }).await?;
        say(way, &reference).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn pull_with_and_without_a_password() -> Result<()> {
    let shows = ["without: PullImage: ", "wrong: PullImage: ", "PullImage: OK", "<image>"];
    same("pull_with_and_without_a_password", &shows, async |way| {
        let reference = image(way, &way.bench.private).await?;
        let with = |password: &str| PullImageRequest {
            auth: Some(AuthConfig {
                username: USER.to_owned(),
                password: password.to_owned(),
                ..Default::default()
            }),
            ..pull(&reference)
        };
        for (name, request) in [("without", pull(&reference)), ("wrong", with("another"))] {
            let refused = way.quietly(request).await?.err().context("pulled from a private registry")?;
            way.say(format!("{name}: PullImage: {refused}"));
        }
        let answer = way.must(with(PASSWORD)).await?;
        way.say(answer.image_ref);
        let image = Some(ImageSpec { image: reference.clone(), ..Default::default() });
        say(way, &reference).await?;
        way.must(RemoveImageRequest { image }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn pull_of_what_the_registry_does_not_have() -> Result<()> {
    same("pull_of_what_the_registry_does_not_have", &["PullImage: NotFound"], async |way| {
        way.hide(way.bench.registry.address(), "registry");
        way.refused(pull(&format!("{}/no-such-image:1", way.bench.registry.address()))).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn pull_of_a_name_that_is_none() -> Result<()> {
    same("pull_of_a_name_that_is_none", &["PullImage: "], async |way| {
        way.refused(pull("Not A Name")).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn pull_from_where_nobody_listens() -> Result<()> {
    same("pull_from_where_nobody_listens", &["PullImage: ", "connection refused"], async |way| {
        // A port that nobody takes meanwhile.
        way.refused(pull("127.0.0.1:1/image:1")).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn client_takes_a_pull_back() -> Result<()> {
    let shows = ["the registry was asked", "the registry was left", "Version: OK"];
    same("client_takes_a_pull_back", &shows, async |way| {
        // It takes the connection and never says a word.
        let silent = TcpListener::bind("127.0.0.1:0").await?;
        let call = way.begin(pull(&format!("{}/image:1", silent.local_addr()?))).await?;
        let (mut asked, _) = timeout(PATIENCE, silent.accept()).await.context("nobody asks")??;
        way.say("the registry was asked");
        drop(call);
        let mut said = Vec::new();
        timeout(PATIENCE, asked.read_to_end(&mut said)).await.context("the pull goes on")??;
        way.say("the registry was left");
        way.must(VersionRequest::default()).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn pulls_of_one_image_at_once() -> Result<()> {
    same("pulls_of_one_image_at_once", &["4 pulls, 1 image"], async |way| {
        let reference = image(way, &way.bench.registry).await?;
        let pulls = futures::future::try_join_all((0..4).map(|_| way.quietly(pull(&reference)))).await?;
        let mut references = std::collections::BTreeSet::new();
        for pulled in pulls {
            references.insert(pulled?.image_ref);
        }
        way.say(format!("4 pulls, {} image", references.len()));
        let image = Some(ImageSpec { image: reference.clone(), ..Default::default() });
        way.must(RemoveImageRequest { image }).await?;
        await_condition("it is gone", PATIENCE, async || {
            let image = Some(ImageSpec { image: reference.clone(), ..Default::default() });
            let answer = way.quietly(ImageStatusRequest { image, verbose: false }).await??;
            ensure!(answer.image.is_none(), "{answer:?}");
            Ok(())
        })
        .await
    })
    .await
}
