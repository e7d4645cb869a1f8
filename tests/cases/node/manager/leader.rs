//! One manager leads: the next one follows it when it dies or stops, and it goes on after the API server was
//! away.

use std::sync::Arc;

use super::*;

#[tokio::test]
async fn a_leader_that_dies_is_followed() -> Result<()> {
    let stage = Stage::set("manager-leader").await?;
    let first = stage.manager(Replica::First).await?;
    first.leads().await?;
    let second = stage.manager(Replica::Second).await?;
    stage.node("leader").await?;
    stage.pod("p", "leader").await?;
    stage.ask("before", asks_for("p", &["a"])).await?;
    stage.await_assigned("before").await?;
    let dropped = "berth_manager_writes_total{write=\"assign\",outcome=\"not_leading\"}";
    await_condition("the other has decided the same", PATIENCE, async || {
        ensure!(second.metric(dropped).await? >= 1.0, "not yet");
        Ok(())
    })
    .await?;
    ensure!(second.metric("berth_manager_leads").await? == 0.0, "two lead");

    first.service().kill()?;
    stage.ask("after", asks_for("p", &["a"])).await?;
    let begun = Instant::now();
    stage.await_assigned("after").await?;
    let elapsed = begun.elapsed();
    // The lease's duration and a retry.
    ensure!(elapsed < Duration::from_secs(u64::from(LEASE.1) + 3), "{elapsed:?}");
    second.leads().await?;

    // One that is told to stop gives the lease up: nobody waits for its end.
    first.service().start()?;
    first.ready().await?;
    second.service().stop()?;
    let begun = Instant::now();
    first.leads().await?;
    let elapsed = begun.elapsed();
    ensure!(elapsed < Duration::from_secs(u64::from(LEASE.1)), "{elapsed:?}");
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_was_away_is_followed_again() -> Result<()> {
    let stage = Stage::set("manager-away").await?;
    let manager = stage.manager(Replica::First).await?;
    manager.leads().await?;
    stage.node("away").await?;
    stage.pod("p", "away").await?;
    let server = stage.plane.api();
    server.service().stop()?;
    await_condition("it does not lead without a lease", PATIENCE, async || {
        ensure!(manager.metric("berth_manager_leads").await? == 0.0, "it leads");
        Ok(())
    })
    .await?;
    server.service().start()?;
    server.ready().await?;
    let asked = Arc::new(request("r", asks_for("p", &["a"]))?);
    await_condition("the server takes requests", PATIENCE, async || {
        stage.requests.create(&PostParams::default(), &asked).await.map(drop).context("ask")
    })
    .await?;
    let begun = Instant::now();
    stage.await_assigned("r").await?;
    let elapsed = begun.elapsed();
    // The longest pause of a watch is 5 s.
    ensure!(elapsed < Duration::from_secs(15), "{elapsed:?}");
    ensure!(stage.client.apiserver_version().await.is_ok());
    Ok(())
}
