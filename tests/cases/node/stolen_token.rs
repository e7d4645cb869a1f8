//! A credential of Berth that was stolen: what a thief can write with it, tried on the real API server.
//!
//! Three identities: the agent's ServiceAccount with a token bound to node A, the kubelet's of node A, and
//! the manager's. Besides them those who have their roles under other names, and authors of objects who have
//! more rights than they should. First what each is for is shown to work. Then everything else is tried, and
//! each attempt must be refused for its own reason. Then both ServiceAccounts are made cluster-admin, and the
//! same attempts must still be refused: the policies do not rest on the roles. At last the agent may renew
//! its token (`deploy/token-renewal`), and no other.

mod attempts;
mod authors;
mod controls;
mod identities;
mod labels;
mod manager;
mod metadata;
mod refusals;
mod world;

use anyhow::{Result, anyhow, bail, ensure};
use berth_tests::wait::await_condition;
use kube::Error;
use serde_json::Value;

use self::attempts::{Attempt, Refused};
use self::world::World;
use crate::case::PATIENCE;

#[tokio::test]
async fn a_stolen_token_is_useless_elsewhere() -> Result<()> {
    let world = World::make().await?;
    for control in controls::controls(&world) {
        if let Err(error) = play(&world, &control).await? {
            bail!("{control}: refused: {error}");
        }
    }
    let refused = refusals::refused(&world);
    let mut wrong = Vec::new();
    for Refused { attempt, because } in &refused {
        wrong.extend(fault(&world, attempt, |message| message.contains(because)).await?);
    }
    world.make_thieves_admins().await?;
    let mut again = 0;
    for Refused { attempt, because } in refused.iter().filter(|refused| refused.attempt.stays_refused()) {
        let by_policy = |message: &str| message.contains("denied request") || message.contains(because);
        wrong.extend(fault(&world, attempt, by_policy).await?.map(|fault| format!("as admin: {fault}")));
        again += 1;
    }
    world.let_tokens_be_renewed().await?;
    let renewal = controls::renewal(&world);
    await_condition("the agent may renew its token", PATIENCE, async || {
        play(&world, &renewal).await?.map(drop).map_err(|error| anyhow!("{renewal}: refused: {error}"))
    })
    .await?;
    let of_renewal = refusals::of_renewal(&world);
    for Refused { attempt, because } in &of_renewal {
        wrong.extend(fault(&world, attempt, |message| message.contains(because)).await?);
    }
    let count = refused.len() + of_renewal.len();
    println!(
        "{count} attempts, {again} of them again as cluster-admin; {} not refused as they should be",
        wrong.len()
    );
    ensure!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    ensure!(count >= 300, "only {count} attempts");
    Ok(())
}

/// Returns the fault in how the attempt went, if there is one.
async fn fault(world: &World, attempt: &Attempt, reason: impl Fn(&str) -> bool) -> Result<Option<String>> {
    Ok(match play(world, attempt).await? {
        Ok(_) => Some(format!("{attempt}: was accepted")),
        Err(refusal) if [403, 422].contains(&refusal.code) && reason(&refusal.message) => None,
        Err(refusal) => Some(format!("{attempt}: {} {}", refusal.code, refusal.message)),
    })
}

async fn play(world: &World, attempt: &Attempt) -> Result<Result<Value, Box<kube::core::Status>>> {
    match world.client(attempt.who).request::<Value>(attempt.request()?).await {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Api(status)) => Ok(Err(status)),
        Err(error) => Err(anyhow::Error::new(error).context(attempt.to_string())),
    }
}
