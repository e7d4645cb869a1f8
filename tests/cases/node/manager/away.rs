//! A manager whose API server goes away and comes back.

use std::sync::Arc;

use super::*;

#[tokio::test]
async fn an_api_server_that_was_away_is_followed_again() -> Result<()> {
    let stage = Stage::set("manager-away").await?;
    let manager = stage.manager(Replica::First).await?;
    manager.leads().await?;
    stage.node("away").await?;
    stage.pod("p", "away").await?;
    let server = stage.plane.api();
    server.service().stop()?;
    let noticed = await_condition("it does not lead without a lease", PATIENCE, async || {
        ensure!(manager.metric("berth_manager_leads").await? == 0.0, "it leads");
        Ok(())
    })
    .await;
    // The other tests need it.
    server.service().start()?;
    server.ready().await?;
    noticed?;
    let asked = Arc::new(request("r", asks_for("p", &["a"]))?);
    await_condition("the server takes requests", PATIENCE, async || {
        stage.requests.create(&PostParams::default(), &asked).await.map(drop).context("ask")
    })
    .await?;
    let begun = Instant::now();
    stage.await_assigned("r").await?;
    let elapsed = begun.elapsed();
    // The longest pause of a watch is 5 s, and its lease is to be had by then.
    ensure!(elapsed < 2 * AT_ONCE, "{elapsed:?}");
    ensure!(stage.client.apiserver_version().await.is_ok());
    Ok(())
}
