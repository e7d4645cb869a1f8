//! The pods and Jobs that the tests and benchmarks play, written in few words. Everything that is not said is
//! the API's default.

use anyhow::{Context, Result};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use crate::node::{NODE_NAME, images};

/// Declares a pod's containers ordered as listed, the first highest.
pub const LAUNCH_PRIORITY: &str = "apps.kruise.io/container-launch-priority";
/// A container's priority; higher starts first.
pub const CONTAINER_PRIORITY: &str = "KRUISE_CONTAINER_PRIORITY";

/// A pod on the only node, past the scheduler.
#[derive(Clone, Debug)]
pub struct PodManifest {
    pod: Value,
}

impl PodManifest {
    /// A pod without containers yet.
    pub fn new(namespace: &str, name: &str) -> Self {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "namespace": namespace, "name": name, "annotations": {} },
            "spec": {
                "nodeName": NODE_NAME,
                "terminationGracePeriodSeconds": 10,
                "containers": [],
                "initContainers": []
            }
        });
        Self { pod }
    }

    /// Adds a container.
    pub fn container(mut self, container: Container) -> Self {
        push(&mut self.pod["spec"]["containers"], container);
        self
    }

    /// Adds an init container.
    pub fn init_container(mut self, container: Container) -> Self {
        push(&mut self.pod["spec"]["initContainers"], container);
        self
    }

    /// Adds an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.pod["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Adds a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.pod["metadata"]["labels"][key] = value.into();
        self
    }

    /// Ordered as listed.
    pub fn ordered(self) -> Self {
        self.annotation(LAUNCH_PRIORITY, "Ordered")
    }

    /// Sets a field of the spec.
    pub fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.pod["spec"][field] = value.into();
        self
    }

    /// Sets the grace period, in seconds.
    pub fn grace(self, seconds: i64) -> Self {
        self.spec("terminationGracePeriodSeconds", seconds)
    }

    /// The object for the API.
    pub fn pod(&self) -> Result<Pod> {
        serde_json::from_value(self.pod.clone()).context("a manifest that is no Pod")
    }

    /// The same for a file.
    pub fn json(&self) -> &Value {
        &self.pod
    }

    /// A Job of the same name that makes this pod, and a new one after each of the first `backoff_limit`
    /// failures.
    pub fn job(&self, backoff_limit: i32) -> Result<Job> {
        let meta = &self.pod["metadata"];
        let job = json!({
            "metadata": { "namespace": meta["namespace"], "name": meta["name"] },
            "spec": {
                "backoffLimit": backoff_limit,
                "template": { "metadata": { "annotations": meta["annotations"] }, "spec": self.pod["spec"] },
            },
        });
        serde_json::from_value(job).context("a manifest that is no Job")
    }
}

/// A busybox container that runs until it is told to end, and then ends at once.
#[derive(Clone, Debug)]
pub struct Container {
    fields: Map<String, Value>,
}

impl Container {
    /// Runs for ever.
    pub fn new(name: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), name.into());
        fields.insert("image".to_owned(), images::BUSYBOX.into());
        Self { fields }.shell("")
    }

    /// Runs `first` in a shell and goes on for ever.
    pub fn shell(self, first: &str) -> Self {
        // As the first process of its container the shell would ignore SIGTERM without a handler of its own.
        self.only(&format!("trap 'exit 0' TERM\n{first}\nsleep 1000000 & wait"))
    }

    /// Runs `script` in a shell and nothing else.
    pub fn only(self, script: &str) -> Self {
        self.field("command", json!(["/bin/sh", "-c", script]))
    }

    /// Made of another image than the tests' own.
    pub fn image(self, image: &str) -> Self {
        self.field("image", image)
    }

    /// Sets its priority, by the environment variable.
    pub fn priority(self, priority: i64) -> Self {
        self.env(CONTAINER_PRIORITY, &priority.to_string())
    }

    /// Sets an environment variable.
    pub fn env(self, name: &str, value: &str) -> Self {
        self.env_entry(json!({ "name": name, "value": value }))
    }

    /// Adds an entry to the environment, such as one with `valueFrom`.
    pub fn env_entry(mut self, entry: Value) -> Self {
        if let Value::Array(list) = self.fields.entry("env").or_insert_with(|| json!([])) {
            list.push(entry);
        }
        self
    }

    /// Has a readiness probe that runs `script` every second.
    pub fn ready_when(self, script: &str) -> Self {
        self.field("readinessProbe", probe(script))
    }

    /// The same for an object that has containers.
    pub fn json(self) -> Value {
        Value::Object(self.fields)
    }

    /// Sets any field.
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }
}

/// An exec probe, every second, failing at the first failure. A machine with other work to do may take longer
/// than the usual second for a command, which says nothing of the container.
pub fn probe(script: &str) -> Value {
    let command = ["/bin/sh", "-c", script];
    json!({ "exec": { "command": command }, "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 1 })
}

fn push(list: &mut Value, container: Container) {
    if let Value::Array(list) = list {
        list.push(Value::Object(container.fields));
    }
}
