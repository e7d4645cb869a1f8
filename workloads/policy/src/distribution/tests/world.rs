//! A cluster of one distribution: its namespaces, and the objects of its kind and name, as the API server
//! keeps them.

use std::collections::BTreeMap;

use berth_proto::crd::{DistributionCondition, ResourceDistribution};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, json};

use super::super::{
    API_VERSION, Action, COPY_LABEL, CopyView, Input, KIND, NamespaceView, Plan, Problem, Rules, Trouble,
    is_of, merged, plan,
};
use crate::selector::Labels;

pub(super) struct World {
    pub(super) distribution: ResourceDistribution,
    pub(super) namespaces: BTreeMap<String, NamespaceView>,
    /// By namespace.
    pub(super) objects: BTreeMap<String, Value>,
    pub(super) troubles: BTreeMap<String, Trouble>,
    /// Namespaces of the cluster are as all others.
    pub(super) everywhere: bool,
    versions: u64,
}

pub(super) fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "game", "labels": { "app": "game" }, "namespace": "ignored", "uid": "of-a-copy" },
        "data": { "lives": "3" },
    })
}

pub(super) fn secret() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "game" },
        "data": { "a": "eA==", "b": "eA==" }, "stringData": { "b": "y" },
    })
}

pub(super) fn distribution(resource: &Value, targets: &Value) -> ResourceDistribution {
    serde_json::from_value(json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": { "name": "games", "uid": "rd", "generation": 1 },
        "spec": { "resource": resource, "targets": targets },
    }))
    .unwrap()
}

impl World {
    /// Namespaces with their label `env`.
    pub(super) fn new(resource: &Value, targets: &Value, namespaces: &[(&str, &str)]) -> Self {
        let mut world = Self {
            distribution: distribution(resource, targets),
            namespaces: BTreeMap::new(),
            objects: BTreeMap::new(),
            troubles: BTreeMap::new(),
            everywhere: false,
            versions: 0,
        };
        namespaces.iter().for_each(|(name, env)| world.namespace(name, env));
        world
    }

    pub(super) fn namespace(&mut self, name: &str, env: &str) {
        let labels = Labels::from([("env".to_owned(), env.to_owned())]);
        let view = NamespaceView { uid: format!("uid-{name}"), labels, terminating: false };
        self.namespaces.insert(name.to_owned(), view);
    }

    pub(super) fn rules(&self) -> Rules {
        Rules::of(&self.distribution).unwrap().everywhere(self.everywhere)
    }

    fn view(object: &Value) -> Option<CopyView> {
        // Nobody sees what has no label.
        object["metadata"]["labels"][COPY_LABEL].as_str()?;
        if object["kind"] == "Secret" {
            CopyView::of_secret(&serde_json::from_value::<Secret>(object.clone()).unwrap())
        } else {
            CopyView::of_config_map(&serde_json::from_value::<ConfigMap>(object.clone()).unwrap())
        }
    }

    pub(super) fn plan(&self, retry: bool) -> Plan {
        let copies: Vec<CopyView> = self.objects.values().filter_map(Self::view).collect();
        let copies: Vec<&CopyView> = copies.iter().filter(|copy| copy.owner == "rd").collect();
        let input = Input {
            distribution: &self.distribution,
            namespaces: &self.namespaces,
            copies: &copies,
            troubles: &self.troubles,
            retry,
        };
        plan(&input, &self.rules(), Timestamp::constant(1_700_000_000, 0))
    }

    /// Puts an object as the API server does.
    pub(super) fn put(&mut self, namespace: &str, mut object: Value) {
        self.versions += 1;
        let meta = &mut object["metadata"];
        meta["namespace"] = namespace.into();
        meta["resourceVersion"] = self.versions.to_string().into();
        if !meta["uid"].is_string() || meta["uid"] == "of-a-copy" {
            meta["uid"] = format!("object-{}", self.versions).into();
        }
        if object["kind"] == "Secret" {
            let texts = object["stringData"].take();
            for (key, text) in texts.as_object().into_iter().flatten() {
                let bytes = k8s_openapi::ByteString(text.as_str().unwrap().as_bytes().to_vec());
                object["data"][key] = json!(bytes);
            }
            if object["type"].is_null() {
                object["type"] = "Opaque".into();
            }
            object.as_object_mut().unwrap().remove("stringData");
        }
        self.objects.insert(namespace.to_owned(), object);
    }

    /// Carries out plans until nothing is left to do.
    pub(super) fn settle(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        for round in 0..10 {
            let Plan { actions, status, .. } = self.plan(round == 0);
            if let Some(status) = status {
                self.distribution.status = Some(status);
            } else if actions.is_empty() {
                return all;
            }
            for action in actions {
                self.write(&action);
                all.push(action);
            }
        }
        panic!("it never ends: {all:?}");
    }

    /// Carries out one write, as the program does.
    fn write(&mut self, action: &Action) {
        let (rules, name) = (self.rules(), action.namespace().to_owned());
        let mut trouble = None;
        match action {
            Action::Create { .. } | Action::Update { .. } => match self.objects.get(&name) {
                None => self.put(&name, rules.copy(&name)),
                Some(there) => {
                    let meta: ObjectMeta = serde_json::from_value(there["metadata"].clone()).unwrap();
                    if is_of(&meta, "rd") {
                        self.put(&name, merged(rules.copy(&name), &meta));
                    } else {
                        trouble = Some((Problem::Conflict, "of another owner".to_owned()));
                    }
                }
            },
            Action::Delete { target, .. } => {
                assert_eq!(self.objects[&name]["metadata"]["uid"], target.uid.as_str());
                self.objects.remove(&name);
            }
        }
        let namespace = self.namespaces.get(&name).map(|view| view.uid.clone()).unwrap_or_default();
        match trouble {
            Some((problem, text)) => {
                self.troubles.insert(name, Trouble { problem, text, namespace, met: 0 });
            }
            None => {
                self.troubles.remove(&name);
            }
        }
    }

    pub(super) fn has(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }

    pub(super) fn condition(&self, type_: &str) -> &DistributionCondition {
        let status = self.distribution.status.as_ref().unwrap();
        status.conditions.iter().find(|one| one.type_ == type_).unwrap()
    }

    pub(super) fn counts(&self) -> (i32, i32, i32) {
        let status = self.distribution.status.as_ref().unwrap();
        (status.desired, status.succeeded, status.failed)
    }
}

pub(super) const NAMESPACES: [(&str, &str); 5] =
    [("a", "prod"), ("b", "test"), ("c", "prod"), ("kube-public", "prod"), ("kube-system", "prod")];

pub(super) fn list(names: &[&str]) -> Value {
    json!({ "list": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() })
}
