//! No env value, no credential and no token comes out of the agent where it should not: a word that is put
//! into all of them is looked for in its log at the finest level, its metrics, its answers, and everything it
//! has written.

mod api;

use std::{
    fs,
    io::Read,
    net::{Ipv4Addr, SocketAddr},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use berth_proto::cri as proto;
use berth_tests::{
    fake::{Exchange, FakeKubelet, FakeRuntime, framed},
    node::{http::get, programs},
};
use bytes::Bytes;
use prost::Message;

use crate::world::{cri, own_process, within};

/// Word that is looked for.
const CANARY: &str = "cAnArY7d1f";
const NODE: &str = "node-a";

/// Messages that the runtime was given, by method.
type Given = Arc<Mutex<Vec<(String, Bytes)>>>;

/// The agent, and everything it says.
struct Agent {
    child: Child,
    said: std::thread::JoinHandle<String>,
}

impl Agent {
    /// Ends it the hard way, as a bug in a library would: a core file is what is asked for.
    fn abort(mut self) -> (String, std::process::ExitStatus) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGABRT).unwrap();
        let status = self.child.wait().unwrap();
        (self.said.join().unwrap(), status)
    }
}

fn agent(program: &Path, directory: &Path, api: &str, http: SocketAddr) -> Agent {
    let file = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let kubeconfig = file(
        "kubeconfig",
        format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             clusters: [{{name: c, cluster: {{server: '{api}'}}}}], users: [{{name: u, user: {{token: {CANARY}}}}}]}}"
        ),
    );
    let docker = [
        file(
            "docker.json",
            format!(r#"{{"auths": {{"127.0.0.1:9": {{"username": "u", "password": "{CANARY}"}}}}}}"#),
        ),
        file("half.json", format!(r#"{{"auths": {{"127.0.0.1:9": {{"password": "{CANARY}"#)),
        file("odd.json", format!(r#"{{"auths": {{"127.0.0.1:9": {{"auth": "{CANARY}"}}}}}}"#)),
        file("other.json", format!(r#"{{"auths": "{CANARY}"}}"#)),
    ];
    let plugins = file(
        "plugins.yaml",
        format!(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: [{{name: a, env: {CANARY}}}]\n"
        ),
    );
    let dir = directory.display();
    let config = file(
        "berthd.yaml",
        format!(
            "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\nsocket: {dir}/cri.sock\nadminSocket: {dir}/admin.sock\n\
             stateDir: {dir}/state\ndesiredDir: {dir}/desired\nruntimeEndpoint: unix://{dir}/runtime.sock\n\
             httpAddress: {http}\nnodeName: {NODE}\nkubeletProcesses: {kubelet:?}\n\
             podView: {{mode: api, kubeconfig: {kubeconfig}}}\nlogging: {{level: trace, format: json}}\n\
             images: {{dockerConfig: {docker:?}, credentialProviderConfig: {plugins}, credentialProviderBinDir: {dir}}}\n",
            kubelet = own_process().kubelet,
        ),
    );
    // As large a core file as anybody could want.
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -c unlimited; exec \"$0\" --config \"$1\""])
        .arg(program)
        .arg(config)
        .current_dir(directory)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        stderr.read_to_end(&mut said).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    });
    Agent { child, said }
}

/// A loopback address that nobody else has: a port of 127.0.0.1 that is free now may be taken, also by some
/// client, before the agent comes to it.
fn own_address() -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, 83, high, low), 9841).into()
}

/// A runtime that has nothing, makes everything, and cannot pull.
fn runtime(directory: &Path, given: &Given) -> FakeRuntime {
    let given = given.clone();
    FakeRuntime::start(&directory.join("runtime.sock"), move |mut exchange: Exchange| {
        let given = given.clone();
        async move {
            let method = exchange.method().to_owned();
            let Ok(body) = exchange.read().await else { return };
            given.lock().unwrap().push((method.clone(), body));
            // A caller that goes away has its reasons.
            let _ = match method.as_str() {
                "RunPodSandbox" => {
                    let answer = proto::RunPodSandboxResponse { pod_sandbox_id: "sandbox".to_owned() };
                    exchange.reply(&answer.encode_to_vec()).await
                }
                "CreateContainer" => {
                    let answer = proto::CreateContainerResponse { container_id: "container".to_owned() };
                    exchange.reply(&answer.encode_to_vec()).await
                }
                "PullImage" => exchange.fail(2, "denied"),
                _ => exchange.reply(&[]).await,
            };
        }
    })
    .unwrap()
}

fn create(container: &str) -> Vec<u8> {
    let variable = |key: &str| proto::KeyValue { key: key.to_owned(), value: CANARY.to_owned() };
    let sandbox = sandbox();
    let config = proto::ContainerConfig {
        metadata: Some(proto::ContainerMetadata { name: container.to_owned(), attempt: 0 }),
        envs: vec![variable("TOKEN"), variable("KRUISE_CONTAINER_PRIORITY")],
        command: vec!["login".to_owned(), CANARY.to_owned()],
        ..Default::default()
    };
    proto::CreateContainerRequest {
        pod_sandbox_id: "sandbox".to_owned(),
        config: Some(config),
        sandbox_config: Some(sandbox),
    }
    .encode_to_vec()
}

fn sandbox() -> proto::PodSandboxConfig {
    let metadata = proto::PodSandboxMetadata {
        name: "web".to_owned(),
        namespace: "shop".to_owned(),
        uid: "pod-uid".to_owned(),
        attempt: 0,
    };
    proto::PodSandboxConfig { metadata: Some(metadata), ..Default::default() }
}

/// Everything the kubelet could say, and each of it cut off in the middle of the canary, too.
async fn speak(kubelet: &FakeKubelet) -> String {
    let run = proto::RunPodSandboxRequest { config: Some(sandbox()), ..Default::default() }.encode_to_vec();
    let auth =
        proto::AuthConfig { username: "u".to_owned(), password: CANARY.to_owned(), ..Default::default() };
    let image = proto::ImageSpec { image: "127.0.0.1:9/app:1".to_owned(), ..Default::default() };
    let pull = proto::PullImageRequest { image: Some(image), auth: Some(auth), sandbox_config: None }
        .encode_to_vec();
    let exec = |timeout| {
        let cmd = vec!["login".to_owned(), CANARY.to_owned()];
        proto::ExecSyncRequest { container_id: "container".to_owned(), cmd, timeout }.encode_to_vec()
    };
    let calls = [
        (cri("RunPodSandbox"), run),
        (cri("CreateContainer"), create("main")),
        (cri("CreateContainer"), create("first")),
        (cri("ExecSync"), exec(0)),
        (cri("ExecSync"), exec(1)),
        ("/runtime.v1.ImageService/PullImage".to_owned(), pull),
    ];
    let mut said = String::new();
    for (path, message) in calls {
        let cut = message.windows(CANARY.len()).position(|at| at == CANARY.as_bytes());
        let broken = cut.map(|at| framed(&message[..at + CANARY.len()]));
        // With bytes that are no text before it.
        let garbage = Bytes::from([&framed(&[0x0a, 0x0c, 0xc3, 0x28])[..], CANARY.as_bytes()].concat());
        for body in [Some(framed(&message)), broken, Some(garbage)].into_iter().flatten() {
            let reply = kubelet.call_with(&path, &[], body).await.unwrap();
            said += &format!("{path}: {:?} {}\n", reply.status(), reply.message());
        }
    }
    said
}

/// Returns everything that `berthctl` says for these arguments, errors included.
fn ctl(program: &Path, directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .env_clear()
        .args(["--debug", "--admin-socket", directory.join("admin.sock").to_str().unwrap()])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Every file below it that the agent has made.
fn files(directory: &Path, into: &mut Vec<(String, String)>) {
    // What was never needed was never made.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, into);
        } else if path.is_file() {
            into.push((
                path.display().to_string(),
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
            ));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_secret_is_said_or_written() {
    // Brought up to date here, which may take longer than the case.
    let (berthd, berthctl) = (programs::berth("berthd").unwrap(), programs::berth("berthctl").unwrap());
    within(async {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let given = Given::default();
        let _runtime = runtime(directory, &given);
        let (url, asked) = api::start().await;
        let http = own_address();
        let agent = agent(&berthd, directory, &url, http);
        let kubelet = loop {
            match FakeKubelet::connect(&directory.join("cri.sock")).await {
                Ok(kubelet) => break kubelet,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        // All of the garbage was shown, and after it the pod.
        while asked.lists.load(Ordering::Relaxed) < 4 || asked.watches.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut outputs = vec![("answers to the kubelet".to_owned(), speak(&kubelet).await)];
        for arguments in [
            &["status"][..],
            &["order"],
            &["order", "web", "-o", "json"],
            &["get", "requests"],
            &["get", "updates"],
            &["recreate", "web", "main"],
            &["update", "web", "main=127.0.0.1:9/app:2"],
            &["pull", "127.0.0.1:9/app:1"],
            &["pulls"],
        ] {
            let (directory, owned) = (directory.to_owned(), arguments.iter().map(ToString::to_string));
            let owned: Vec<String> = owned.collect();
            let berthctl = berthctl.clone();
            let run =
                move || ctl(&berthctl, &directory, &owned.iter().map(String::as_str).collect::<Vec<_>>());
            outputs.push((format!("{arguments:?}"), tokio::task::spawn_blocking(run).await.unwrap()));
        }
        for page in ["/metrics", "/readyz", "/healthz"] {
            outputs.push((page.to_owned(), get(&http.to_string(), page).await.unwrap().body));
        }
        let (log, status) = agent.abort();
        assert!(!status.core_dumped(), "a core file has all of its memory");

        // The canary went everywhere it should.
        let given = given.lock().unwrap();
        let count = |method: &str| {
            let has = |body: &Bytes| body.windows(CANARY.len()).any(|at| at == CANARY.as_bytes());
            given.iter().filter(|(own, body)| own == method && has(body)).count()
        };
        for method in ["CreateContainer", "ExecSync", "PullImage"] {
            assert!(count(method) > 0, "{method} was not passed on");
        }
        assert!(count("PullImage") > 3, "the agent's own pull had credentials");
        assert!(asked.tokens.load(Ordering::Relaxed) > 0);
        assert!(log.contains("\"TRACE\"") && log.contains("Docker configuration not read"), "{log:.2000}");

        outputs.push(("the log".to_owned(), log));
        files(&directory.join("state"), &mut outputs);
        files(&directory.join("desired"), &mut outputs);
        for (what, text) in outputs {
            let found = text.lines().find(|line| line.contains(CANARY));
            assert!(found.is_none(), "{what}: {found:?}");
        }
    })
    .await;
}
