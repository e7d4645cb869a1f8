//! Credentials that the manager seals to a node: they open for what they are meant for, and for nothing else.

use anyhow::{Context as _, Result, ensure};
use berth_proto::crd::{ImagePhase, NodeImage, PullStatus};
use berth_proto::sealing::{Context, NodeKey, RegistryCredential, SealingKey};
use berth_tests::node::{NODE_NAME, PASSWORD, USER, User};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::credentials::{never_told, publish};
use super::scene::Wanted;
use crate::case::{Case, run};

/// The right credential, or one with a password of nobody.
fn credential(password: &str) -> RegistryCredential {
    RegistryCredential { username: USER.to_owned(), password: password.to_owned(), ..Default::default() }
}

fn wish(uid: &str, image: &str, seal: &str) -> Value {
    json!({
        "uid": uid, "image": image, "version": 1,
        "pullPolicy": { "backoffLimit": 0 }, "sealedCredentials": [seal],
    })
}

fn succeeded(told: &PullStatus) -> Result<()> {
    ensure!(told.phase == ImagePhase::Succeeded, "{told:?}");
    Ok(())
}

/// Accepts a wish that failed because its seal did not open.
fn stayed_closed(told: &PullStatus) -> Result<()> {
    ensure!(told.phase == ImagePhase::Failed, "{told:?}");
    let message = told.message.as_deref().context("no reason")?;
    let reason = "401 Unauthorized (tried without credentials; 1 of 1 sealed credentials could not be opened: \
                  sealed to another key, or for another node, wish or image)";
    ensure!(message.ends_with(reason), "{message}");
    Ok(())
}

#[tokio::test]
async fn images_by_sealed_credentials() -> Result<()> {
    const CANARY: &str = "canary-of-the-sealed-password";
    const KIND: &str = "canary-of-a-sealed-token";
    run("images_sealed", async |case: &Case| {
        let wanted = Wanted::of(case).await?;
        let names = ["s-right", "s-node", "s-wish", "s-image", "s-key", "s-wrong", "s-stolen"];
        let images = publish(case, names).await?.map(|name| format!("{name}:v1"));
        let [right, node, other_wish, image, key, wrong, stolen] = &images;
        let own = SealingKey::parse(&wanted.status().await?.sealing_key.context("no key")?)?;
        let other = NodeKey::generate().sealing_key();
        let meant = |wish, image| Context { node: NODE_NAME, wish, image };
        let good = credential(PASSWORD);
        let refused = RegistryCredential { identity_token: KIND.to_owned(), ..credential(CANARY) };

        // Sealed to node B, which is a NodeImage of its own: this node's identity reads it.
        let theirs = SealedToB::make(case, &good, stolen).await?;
        wanted
            .desire(json!([
                wish("right", right, &own.seal(&good, meant("right", right))?),
                wish("node", node, &own.seal(&good, Context { node: "b", ..meant("node", node) })?),
                wish("wish", other_wish, &own.seal(&good, meant("right", other_wish))?),
                wish("image", image, &own.seal(&good, meant("image", right))?),
                wish("key", key, &other.seal(&good, meant("key", key))?),
                wish("wrong", wrong, &own.seal(&refused, meant("wrong", wrong))?),
                wish(SealedToB::WISH, stolen, &theirs.seal),
            ]))
            .await?;
        wanted.pull("right", "is there", succeeded).await?;
        ensure!(case.cri.image(right).await?.is_some(), "not in the runtime");
        for uid in ["node", "wish", "image", "key", SealedToB::WISH] {
            wanted.pull(uid, "stays closed", stayed_closed).await?;
        }
        let told = wanted
            .pull("wrong", "is refused", |told| {
                ensure!(told.phase == ImagePhase::Failed, "{told:?}");
                Ok(())
            })
            .await?;
        let message = told.message.as_deref().context("no reason")?;
        ensure!(message.contains("(tried with 1 credential and without)"), "{message}");
        for image in &images[1..] {
            ensure!(case.cri.image(image).await?.is_none(), "{image} was pulled");
        }
        never_told(case, &wanted, &[PASSWORD, CANARY, KIND]).await?;
        theirs.remove().await?;
        wanted.desire(json!([])).await?;
        for image in &images {
            let name = image.strip_suffix(":v1").context("a tag")?;
            wanted.forgotten(name).await?;
        }
        Ok(())
    })
    .await
}

/// Image credential that was sealed to another node, as whoever holds this node's identity finds it.
struct SealedToB {
    all: Api<NodeImage>,
    seal: String,
}

impl SealedToB {
    const NODE: &str = "node-b";
    const WISH: &str = "of-b";

    async fn make(case: &Case, credential: &RegistryCredential, image: &str) -> Result<Self> {
        let all: Api<NodeImage> = Api::all(case.node.client().await?);
        all.create(&PostParams::default(), &NodeImage::new(Self::NODE, Default::default())).await?;
        let key = NodeKey::generate();
        let context = Context { node: Self::NODE, wish: Self::WISH, image };
        let seal = key.sealing_key().seal(credential, context)?;
        ensure!(key.open(&seal, context).is_ok_and(|opened| opened == *credential), "B cannot open it");
        let status = json!({
            "sealingKey": key.sealing_key().encoded(), "desiredImages": [wish(Self::WISH, image, &seal)],
        });
        let patch = Patch::Merge(json!({ "status": status }));
        all.patch_status(Self::NODE, &PatchParams::default(), &patch).await.context("desire images of B")?;

        let thief: Api<NodeImage> = Api::all(case.node.api()?.client(User::Node).await?);
        let read = thief.get(Self::NODE).await.context("B's NodeImage, as A")?.status.unwrap_or_default();
        let desired = read.desired_images.into_iter().next().context("nothing is desired of B")?;
        let seal = desired.sealed_credentials.into_iter().next().context("nothing is sealed to B")?;
        // With a key of A's in its place, the next seal would be A's to open.
        let swap = Patch::Merge(json!({ "status": { "sealingKey": "AAAA" } }));
        let refusal = thief.patch_status(Self::NODE, &PatchParams::default(), &swap).await;
        let refusal = refusal.err().context("A wrote B's key")?.to_string();
        ensure!(refusal.contains("only objects that have the name of its own node"), "{refusal}");
        Ok(Self { all, seal })
    }

    async fn remove(&self) -> Result<()> {
        self.all.delete(Self::NODE, &DeleteParams::default()).await?;
        Ok(())
    }
}
