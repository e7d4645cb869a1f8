//! Keeps `spec.conversion` of the definition of StatefulSets: the API server asks the manager's Service, and
//! trusts the CAs of its bundle.
//!
//! The definition says by an annotation that it is Berth's. One that has no such annotation is somebody
//! else's, who converts too. Nothing but `spec.conversion` is written, so a definition that is applied anew
//! and does not name that field keeps it. Every replica does this, by the rules of the configurations.

use berth_proto::crd::CONVERTED;
use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceConversion, CustomResourceDefinition, ServiceReference, WebhookClientConfig,
        WebhookConversion,
    },
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    admission::{
        certificates::Served,
        configuration::{ANSWER_WITHIN, PAUSES, QUIET, Service},
        path::Route,
        view::View,
    },
    telemetry::chain,
};

/// Name of the definition.
pub(in crate::admission) const DEFINITION: &str = "statefulsets.apps.kruise.io";
const FIELD_MANAGER: &str = "berth-manager";
const WEBHOOK: &str = "Webhook";

/// Bundle that stands in the definition; `None`: there is none that would have to.
pub(in crate::admission) type Bundled = Option<Vec<u8>>;

/// The definition, as far as it is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::admission) struct Seen {
    version: Option<String>,
    ours: bool,
    conversion: Option<CustomResourceConversion>,
}

/// Reads the definition.
pub(in crate::admission) fn read(definition: CustomResourceDefinition) -> Option<Seen> {
    Some(Seen {
        version: definition.resource_version(),
        ours: definition.annotations().get(CONVERTED).is_some_and(|by| by == FIELD_MANAGER),
        conversion: definition.spec.conversion,
    })
}

/// Owner of `spec.conversion`, as far as this replica goes.
pub(in crate::admission) struct ConversionReconciler {
    /// API of the definitions.
    pub(in crate::admission) api: Api<CustomResourceDefinition>,
    /// Where the API server finds us.
    pub(in crate::admission) service: Service,
    /// The definition, watched.
    pub(in crate::admission) shown: watch::Receiver<View<Seen>>,
    /// The certificate.
    pub(in crate::admission) served: watch::Receiver<Served>,
    /// Learns the bundle that stands in it.
    pub(in crate::admission) bundled: watch::Sender<Bundled>,
}

/// Decision on the definition.
#[derive(Clone, Debug, PartialEq)]
enum Look {
    /// It is not there, is not ours, or not everything is known yet.
    Rests,
    /// It is right.
    Stands,
    /// Its conversion is to be this.
    Owes(Box<CustomResourceConversion>),
}

impl ConversionReconciler {
    /// Keeps it, for ever.
    pub(in crate::admission) async fn run(mut self) {
        let (mut said, mut writes, mut written) = (None::<String>, 0_usize, Instant::now());
        loop {
            let (shown, served) =
                (self.shown.borrow_and_update().clone(), self.served.borrow_and_update().clone());
            let seen = shown.get(DEFINITION);
            let look = look(seen, &served, &self.service);
            self.tell(match &look {
                Look::Rests => None,
                Look::Stands => Some(served.bundle.clone()),
                Look::Owes(_) => Some(Vec::new()),
            });
            if look == Look::Stands {
                said = None;
            }
            if let (Look::Owes(conversion), Some(seen)) = (look, seen) {
                if written.elapsed() > QUIET {
                    writes = 0;
                }
                if let Err(error) = self.write(seen, &conversion).await
                    && said.as_ref() != Some(&error)
                {
                    warn!(definition = DEFINITION, error, "Conversion not written: v1alpha1 cannot be used");
                    said = Some(error);
                }
                // It comes back by the watch. Two that want something else write ever more slowly.
                sleep(PAUSES[writes.min(PAUSES.len() - 1)]).await;
                (writes, written) = (writes.saturating_add(1), Instant::now());
                let shown = self.shown.borrow();
                if shown.get(DEFINITION).is_none_or(|now| now.version != seen.version) {
                    continue;
                }
            }
            // Cancel-safe: a change that is not taken is seen the next time.
            let ended = tokio::select! {
                changed = self.shown.changed() => changed.is_err(),
                changed = self.served.changed() => changed.is_err(),
                // A write that failed.
                () = sleep(QUIET / 6) => false,
            };
            if ended {
                return;
            }
        }
    }

    async fn write(&self, seen: &Seen, conversion: &CustomResourceConversion) -> Result<(), String> {
        let mut patch = json!({
            // Of the version that was decided on.
            "metadata": { "resourceVersion": seen.version },
            "spec": { "conversion": conversion },
        });
        // One that somebody else has put there.
        patch["spec"]["conversion"]["webhook"]["clientConfig"]["url"] = Value::Null;
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match timeout(ANSWER_WITHIN, self.api.patch(DEFINITION, &params, &Patch::Merge(&patch))).await {
            Ok(Ok(_)) => info!(definition = DEFINITION, "Conversion written"),
            // Another replica was first, or it is gone: it comes by the watch.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {}
            Ok(Err(error)) => return Err(chain(&error)),
            Err(_) => return Err("no answer".to_owned()),
        }
        Ok(())
    }

    fn tell(&self, bundle: Bundled) {
        self.bundled.send_if_modified(|known| {
            let news = *known != bundle;
            *known = bundle;
            news
        });
    }
}

fn look(seen: Option<&Seen>, served: &Served, service: &Service) -> Look {
    // Nothing is asked of a server that cannot answer.
    let Some(seen) = seen.filter(|seen| seen.ours && served.is_loaded()) else { return Look::Rests };
    let wanted = conversion(service, &served.bundle);
    if seen.conversion.as_ref() == Some(&wanted) { Look::Stands } else { Look::Owes(Box::new(wanted)) }
}

/// The conversion as the API server shows it, with the defaults that it would fill in.
fn conversion(service: &Service, bundle: &[u8]) -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: WEBHOOK.to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                ca_bundle: Some(ByteString(bundle.to_vec())),
                service: Some(ServiceReference {
                    namespace: service.namespace.clone(),
                    name: service.name.clone(),
                    path: Some(Route::Convert.path()),
                    port: Some(443),
                }),
                url: None,
            }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::admission::certificates::made_for_tests;

    fn service() -> Service {
        Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() }
    }

    fn definition(annotations: &Value, conversion: &Value) -> Seen {
        let definition = json!({
            "metadata": { "name": DEFINITION, "resourceVersion": "7", "annotations": annotations },
            "spec": { "group": "apps.kruise.io", "scope": "Namespaced", "versions": [],
                "names": { "kind": "StatefulSet", "plural": "statefulsets" }, "conversion": conversion },
        });
        read(serde_json::from_value(definition).unwrap()).unwrap()
    }

    #[rstest]
    #[case::fresh(json!({ "strategy": "None" }), false)]
    #[case::left_out(Value::Null, false)]
    #[case::another_bundle(json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": {
        "caBundle": "b3RoZXI=", "service": { "namespace": "berth-system", "name": "berth-manager", "path": "/convert", "port": 443 } } } }), false)]
    #[case::of_openkruise(json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1", "v1beta1"], "clientConfig": {
        "service": { "namespace": "kruise-system", "name": "kruise-webhook-service", "path": "/convert" } } } }), false)]
    #[case::right(serde_json::to_value(conversion(&service(), b"bundle")).unwrap(), true)]
    fn the_definition_asks_the_manager(#[case] standing: Value, #[case] stands: bool) {
        let (mut served, _) = made_for_tests("berth-manager.berth-system.svc");
        served.bundle = b"bundle".to_vec();
        let ours = json!({ CONVERTED: "berth-manager" });
        let looked = look(Some(&definition(&ours, &standing)), &served, &service());
        match looked {
            Look::Stands => assert!(stands),
            Look::Owes(wanted) => {
                assert!(!stands && *wanted == conversion(&service(), b"bundle"));
                let client = serde_json::to_value(&wanted).unwrap()["webhook"]["clientConfig"].clone();
                assert_eq!(client["service"]["path"], "/convert");
                assert!(client.get("url").is_none() && client["caBundle"] == "YnVuZGxl");
            }
            Look::Rests => panic!("it is ours"),
        }
        // Somebody else's is left alone, whatever stands in it.
        for others in [json!({}), json!({ CONVERTED: "somebody" })] {
            assert_eq!(look(Some(&definition(&others, &standing)), &served, &service()), Look::Rests);
        }
        // Without a certificate nobody is to ask.
        let none = Served::default();
        assert_eq!(look(Some(&definition(&ours, &standing)), &none, &service()), Look::Rests);
        assert_eq!(look(None, &served, &service()), Look::Rests);
    }
}
