//! An API server that shows one pod, and first of all garbage with the canary in it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{CANARY, NODE};

/// Counts of the questions that the API server was asked.
#[derive(Default)]
pub(super) struct Asked {
    /// Lists of pods.
    pub(super) lists: AtomicUsize,
    /// Watches of pods.
    pub(super) watches: AtomicUsize,
    /// Questions with the canary as their token.
    pub(super) tokens: AtomicUsize,
}

/// Where it listens, and what it is asked.
pub(super) async fn start() -> (String, Arc<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Asked::default());
    let counts = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, counts.clone()));
        }
    });
    (url, asked)
}

/// One answer, and the connection is closed.
async fn answer(mut stream: TcpStream, asked: Arc<Asked>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 1 << 16 {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    if head.contains(CANARY) {
        asked.tokens.fetch_add(1, Ordering::Relaxed);
    }
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (code, body) = match target.split('?').next().unwrap_or_default() {
        "/api/v1/pods" if target.contains("watch=true") => {
            let event = match asked.watches.fetch_add(1, Ordering::Relaxed) {
                // What was listed counts no more: the agent lists again.
                0 => json!({ "type": "ERROR", "object": { "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old" } }),
                _ => json!({ "type": "MODIFIED", "object": with_env(&json!(CANARY)) }),
            };
            (200, event.to_string() + "\n")
        }
        "/api/v1/pods" => match asked.lists.fetch_add(1, Ordering::Relaxed) {
            0 => (200, format!("{{\"items\": \"{CANARY}\"")),
            // A pod that cannot be read is set aside, and the list is good.
            1 => (200, list(vec![with_env(&json!([{ "name": CANARY, "value": { "of": CANARY } }]))])),
            // What a server says of its own trouble is told in its words: no Secret and no env is in them.
            2 => (500, "no server".to_owned()),
            _ => (200, list(vec![with_env(&json!([{ "name": "TOKEN", "value": CANARY }]))])),
        },
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => {
            let user = json!({ "username": format!("system:node:{NODE}"), "groups": ["system:nodes"] });
            (201, json!({ "metadata": {}, "status": { "userInfo": user } }).to_string())
        }
        path if path == format!("/api/v1/nodes/{NODE}") => {
            (200, json!({ "metadata": { "name": NODE, "uid": "node-uid" } }).to_string())
        }
        _ => (404, json!({ "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "no" }).to_string()),
    };
    let head = format!(
        "HTTP/1.1 {code} So\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // A client that goes away has its reasons.
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

fn list(pods: Vec<Value>) -> String {
    json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "7" }, "items": pods })
        .to_string()
}

/// The pod, with commands and headers that have the canary, too.
fn with_env(env: &Value) -> Value {
    let exec = json!({ "exec": { "command": ["login", CANARY] }, "periodSeconds": 1 });
    let hook = json!({ "preStop": { "httpGet": { "port": 9, "path": CANARY, "httpHeaders": [{ "name": "Authorization", "value": CANARY }] } } });
    json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "pod-uid", "resourceVersion": "7" },
        "spec": {
            "nodeName": NODE,
            "containers": [
                { "name": "main", "env": env, "readinessProbe": exec, "lifecycle": hook },
                { "name": "first", "env": [{ "name": "KRUISE_CONTAINER_PRIORITY", "value": "1" }], "startupProbe": exec, "readinessProbe": exec },
            ],
        },
        "status": { "phase": "Pending" },
    })
}
