//! ImagePullJobs at a real API server, with the rights of `deploy/`; the agent is a few writes of this test.

use berth_proto::crd::{DesiredImage, ImagePullJob, ImagePullJobStatus, NodeImage};
use berth_proto::sealing::{Context as Seal, NodeKey};
use k8s_openapi::api::core::v1::Secret;

use super::*;

/// The manager looks for Secrets again after 30 s, and once more where the right to read them came too late.
const SECRETS: Duration = Duration::from_secs(180);

pub(super) struct Paper {
    pub(super) stage: Stage,
    jobs: Api<ImagePullJob>,
    pub(super) images: Api<NodeImage>,
    pub(super) node: String,
}

impl Paper {
    /// A namespace and a node of that name, whose agent has made its NodeImage and published a key.
    pub(super) async fn set(name: &str, key: &NodeKey) -> Result<Self> {
        let stage = Stage::set(name).await?;
        stage.node(name).await?;
        let node = stage.nodes.get(name).await?;
        let images: Api<NodeImage> = Api::all(stage.client.clone());
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid() });
        let image = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage",
            "metadata": { "name": name, "ownerReferences": [owner] }, "spec": {},
        }))?;
        images.create(&PostParams::default(), &image).await.context("make a NodeImage")?;
        let jobs = Api::namespaced(stage.client.clone(), name);
        let paper = Self { stage, jobs, images, node: name.to_owned() };
        paper.say(json!({ "sealingKey": key.sealing_key().encoded() })).await?;
        Ok(paper)
    }

    /// The agent writes all it has to say.
    pub(super) async fn say(&self, status: Value) -> Result<()> {
        let body = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodeImage",
            "metadata": { "name": self.node }, "status": status,
        });
        let params = PatchParams::apply("berth-agent").force();
        self.images
            .patch_status(&self.node, &params, &Patch::Apply(&body))
            .await
            .context("the agent's write")?;
        Ok(())
    }

    pub(super) async fn job(&self, name: &str, mut spec: Value) -> Result<()> {
        spec["selector"] = json!({ "names": [self.node] });
        let job = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": { "name": name }, "spec": spec,
        }))?;
        self.jobs.create(&PostParams::default(), &job).await.context("make a job")?;
        Ok(())
    }

    /// Keeps a job, even when it was deleted, or does so no more.
    async fn keep(&self, job: &str, kept: bool) -> Result<()> {
        let finalizers: &[&str] = if kept { &["berth.test/seen"] } else { &[] };
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        self.jobs.patch(job, &PatchParams::default(), &Patch::Merge(&patch)).await.context("keep a job")?;
        Ok(())
    }

    pub(super) async fn await_wish(&self, deadline: Duration) -> Result<DesiredImage> {
        await_condition("the node is asked", deadline, async || {
            let status = self.images.get(&self.node).await?.status.context("no status")?;
            status.desired_images.into_iter().next().context("nothing is desired")
        })
        .await
    }

    pub(super) async fn await_status(
        &self,
        job: &str,
        what: &str,
        is_so: impl Fn(&ImagePullJobStatus) -> bool,
    ) -> Result<ImagePullJobStatus> {
        await_condition(format!("job {job} {what}"), PATIENCE, async || {
            let status = self.jobs.get(job).await?.status.context("no status")?;
            ensure!(is_so(&status), "{status:?}");
            Ok(status)
        })
        .await
    }
}

pub(super) fn accepted<'a>(status: &'a ImagePullJobStatus, reason: &str) -> Option<&'a str> {
    let mut conditions = status.conditions.iter().filter(|condition| condition.type_ == "Accepted");
    conditions.find(|condition| condition.reason == reason).map(|condition| condition.message.as_str())
}

#[tokio::test]
async fn a_job_is_carried_out_and_goes_after_its_time() -> Result<()> {
    let key = NodeKey::generate();
    let paper = Paper::set("images-job", &key).await?;
    let manager = paper.stage.manager(Replica::First).await?;
    manager.leads().await?;
    let begun = Instant::now();
    let policy = json!({ "ttlSecondsAfterFinished": 2 });
    paper.job("j", json!({ "image": "registry.example/app:1", "completionPolicy": policy })).await?;
    // Its end is to be seen, however late somebody looks.
    paper.keep("j", true).await?;
    let wish = paper.await_wish(PATIENCE).await?;
    let pull = json!({ "uid": wish.uid, "version": wish.version, "phase": "Succeeded", "progress": 100 });
    paper.say(json!({ "sealingKey": key.sealing_key().encoded(), "pulls": [pull] })).await?;
    let status = paper.await_status("j", "is over", |status| status.completion_time.is_some()).await?;
    let added = begun.elapsed();
    eprintln!("from the job's creation to its success counted: {added:.2?}");
    ensure!(added < AT_ONCE, "{added:?}");
    ensure!((status.desired, status.succeeded) == (Some(1), Some(1)), "{status:?}");
    ensure!(accepted(&status, "Accepted").is_some() && status.ended_nodes.is_some(), "{status:?}");
    paper.keep("j", false).await?;
    await_condition("the job is gone", PATIENCE, async || {
        ensure!(paper.jobs.get_opt("j").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    await_condition("its entry is taken back", PATIENCE, async || {
        let status = paper.images.get(&paper.node).await?.status.context("no status")?;
        ensure!(status.desired_images.is_empty() && status.sealing_key.is_some(), "{status:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_makes_no_sense_is_not_accepted() -> Result<()> {
    let paper = Paper::set("images-fault", &NodeKey::generate()).await?;
    let manager = paper.stage.manager(Replica::First).await?;
    manager.leads().await?;
    paper.job("j", json!({ "image": "UPPER/case", "completionPolicy": {} })).await?;
    let refused = |status: &ImagePullJobStatus| accepted(status, "InvalidSpec").is_some();
    let status = paper.await_status("j", "is refused", refused).await?;
    ensure!(accepted(&status, "InvalidSpec") == status.message.as_deref(), "{status:?}");
    Ok(())
}

/// Without the Role nothing begins; with it the node, and only the node, can open what it gets.
#[tokio::test]
async fn a_pull_secret_reaches_the_node_and_nobody_else() -> Result<()> {
    let (key, other) = (NodeKey::generate(), NodeKey::generate());
    let paper = Paper::set("images-secret", &key).await?;
    let manager = paper.stage.manager(Replica::First).await?;
    manager.leads().await?;
    let secrets: Api<Secret> = Api::namespaced(paper.stage.client.clone(), &paper.node);
    let config =
        json!({ "auths": { "registry.example": { "username": "user", "password": "in-the-secret" } } });
    let secret = serde_json::from_value(json!({
        "metadata": { "name": "one" }, "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": config.to_string() },
    }))?;
    secrets.create(&PostParams::default(), &secret).await.context("make a Secret")?;
    let image = "registry.example/app:1";
    paper.job("j", json!({ "image": image, "pullSecrets": ["one"], "completionPolicy": {} })).await?;
    let unavailable = |status: &ImagePullJobStatus| accepted(status, "SecretUnavailable").is_some();
    let status = paper.await_status("j", "waits for its Secret", unavailable).await?;
    let message = status.message.context("no message")?;
    ensure!(message.contains("images-secret/one") && message.contains("Role"), "{message}");

    for mut object in deploy::objects("samples/pull-secret.yaml")? {
        let kind = object.types.as_ref().context("types")?.kind.clone();
        object.metadata.namespace = Some(paper.node.clone());
        match kind.as_str() {
            "Role" => object.data["rules"][0]["resourceNames"] = json!(["one"]),
            "RoleBinding" => {}
            _ => continue,
        }
        deploy::apply_object(&paper.stage.client, &object).await?;
    }
    let wish = paper.await_wish(SECRETS).await?;
    let [sealed] = &wish.sealed_credentials[..] else { anyhow::bail!("{wish:?}") };
    let context = Seal { node: &paper.node, wish: &wish.uid, image };
    let opened = key.open(sealed, context).map_err(|error| anyhow!("{error}"))?;
    ensure!((&*opened.username, &*opened.password) == ("user", "in-the-secret"));
    ensure!(other.open(sealed, context).is_err(), "another node opens it");
    let log = std::fs::read_to_string(manager.service().log_path())?;
    ensure!(!log.contains("in-the-secret"), "the log says it");
    Ok(())
}
