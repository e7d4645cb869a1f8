//! Parts of a plan, one after the other.
//!
//! A part that fails keeps none of the others from being written: with a quota that is used up gates are
//! opened, and pods that are there get their update. Where a picture turns out to be old, all is decided
//! anew.

use berth_workloads_policy::action::Action;

use super::{End, Work};
use crate::kinds::Plan;

impl Work {
    /// Writes a plan. The first failure is its end.
    pub(super) async fn run(&mut self, plan: Plan) -> End {
        let (parts, status) = plan.into_parts();
        let mut failed = End::Done;
        for part in parts {
            let end = self.part(part).await;
            let is_failure = end.is_failure();
            if end == End::Done || is_failure && failed != End::Done {
                continue;
            }
            if !is_failure {
                if failed == End::Done {
                    return end;
                }
                break;
            }
            failed = end;
        }
        // It says what failed before. What fails now goes on counting, however that ends.
        let written = match status {
            Some(status) => self.status(status).await,
            None => End::Done,
        };
        if failed == End::Done { written } else { failed }
    }

    async fn part(&mut self, actions: Vec<Action>) -> End {
        let mut actions = actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            let end = if is_new(&action) {
                let mut new = vec![action];
                while let Some(action) = actions.next_if(is_new) {
                    new.push(action);
                }
                self.create(new).await
            } else if is_in_place(&action) {
                let mut all = vec![action];
                while let Some(action) = actions.next_if(is_in_place) {
                    all.push(action);
                }
                self.in_place(all).await
            } else {
                self.write(action).await
            };
            if end != End::Done {
                return end;
            }
        }
        End::Done
    }
}

fn is_new(action: &Action) -> bool {
    matches!(action, Action::CreateClaim(_) | Action::CreatePod(_))
}

fn is_in_place(action: &Action) -> bool {
    matches!(action, Action::UpdateInPlace(_) | Action::ForgetInPlace { .. })
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use berth_proto::crd::CloneSet;
    use berth_workloads_policy::{action::Target, plan::Cause};
    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use kube::{Client, client::Body};
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;
    use crate::{events, kinds::Set, metrics::Metrics, write::Writer};

    fn set() -> Set {
        let set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
            "metadata": { "namespace": "ns", "name": "shop", "uid": "set" },
            "spec": { "selector": {}, "template": {} },
        });
        Arc::new(serde_json::from_value::<CloneSet>(set).unwrap())
    }

    fn new(name: &str) -> Action {
        Action::CreatePod(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "ns", "name": name },
            "spec": { "containers": [] },
        }))
    }

    fn target(name: &str) -> Target {
        Target { name: name.to_owned(), uid: name.to_owned(), version: "1".to_owned() }
    }

    fn open(name: &str) -> Action {
        Action::PatchPodStatus(target(name), json!({ "status": { "conditions": [] } }))
    }

    /// Requests, and the codes that they are answered with.
    type Refused = &'static [(&'static str, u16)];

    /// Three parts, in which two pods are made, one is deleted and two gates are opened, at an API server:
    /// what it was asked, and the end.
    async fn carried_out(refused: Refused) -> (String, End) {
        let mut plan = Plan { status: Some(json!({ "replicas": 2 })), ..Plan::default() };
        plan.actions = vec![new("a"), new("b"), Action::DeletePod(target("c")), open("d"), open("e")];
        plan.parts = vec![2, 3];
        let (asked, end, _) = carry_out(plan, refused).await;
        (asked, end)
    }

    /// Plan that is carried out at an API server: what it was asked, the end, and reasons of the Events.
    async fn carry_out(plan: Plan, refused: Refused) -> (String, End, Vec<&'static str>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = asked.clone();
        let service = service_fn(move |request: Request<Body>| {
            let seen = seen.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let path = parts.uri.path();
                let last = path.rsplit('/').find(|part| *part != "status").unwrap_or_default();
                let what = match parts.method {
                    Method::POST => format!("+{}", body["metadata"]["name"].as_str().unwrap_or_default()),
                    Method::DELETE => format!("-{last}"),
                    _ if path.contains("clonesets") => "status".to_owned(),
                    _ => format!("open {last}"),
                };
                seen.lock().unwrap().push(what.clone());
                let code = refused.iter().find(|(refused, _)| *refused == what).map(|(_, code)| *code);
                let answer = match code {
                    Some(code) => json!({
                        "kind": "Status", "status": "Failure", "code": code, "metadata": {},
                        "message": format!("{what} is refused"), "reason": "",
                    }),
                    None => json!({ "metadata": { "name": last, "uid": last, "resourceVersion": "2" } }),
                };
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                Ok::<_, Infallible>(Response::builder().status(code.unwrap_or(200)).body(answer).unwrap())
            }
        });
        let (events, mut told) = events::channel();
        let writer = Writer { client: Client::new(service, "ns"), metrics: Metrics::default(), events };
        let end = writer.carry_out(set(), plan).await.end;
        let reasons = std::iter::from_fn(|| told.try_recv().ok().map(|(_, note)| note.reason)).collect();
        (asked.lock().unwrap().join(" "), end, reasons)
    }

    /// Clients watch for these reasons.
    #[tokio::test]
    async fn what_is_told_of_a_write_to_a_pod() {
        let delete = || Action::DeletePod(target("c"));
        let patch = || Action::PatchPod(target("c"), json!({}));
        let table: [(Action, Option<Cause>, Refused, &[&str]); 6] = [
            (delete(), None, &[], &["SuccessfulDelete"]),
            (delete(), None, &[("-c", 403)], &["FailedDelete"]),
            (delete(), Some(Cause::Update), &[], &["SuccessfulDelete", "SuccessfulUpdatePodReCreate"]),
            (delete(), Some(Cause::Update), &[("-c", 403)], &["FailedUpdatePodReCreate"]),
            (patch(), None, &[], &[]),
            (patch(), Some(Cause::Repair), &[], &["SuccessfulUpdate"]),
        ];
        for (action, cause, refused, reasons) in table {
            let mut plan = Plan { actions: vec![action.clone()], ..Plan::default() };
            plan.causes.extend(cause.map(|cause| ("c".to_owned(), cause)));
            assert_eq!(carry_out(plan, refused).await.2, reasons, "{action:?} {cause:?}");
        }
    }

    #[tokio::test]
    async fn a_failure_ends_its_part_alone() {
        let scale = |what: &str| End::ScaleFailed(format!("{what} is refused"));
        let held = |what: &str| {
            End::Held(Box::new(End::ScaleFailed(format!("held back for now: {what} is refused"))))
        };
        let update = |what: &str| End::UpdateFailed(format!("{what} is refused"));
        let table: [(Refused, &str, End); 7] = [
            (&[], "+a +b -c open d open e status", End::Done),
            (&[("+a", 403)], "+a -c open d open e status", scale("+a")),
            (&[("+b", 403)], "+a +b -c open d open e status", scale("+b")),
            (&[("-c", 429)], "+a +b -c open d open e status", held("-c")),
            (&[("+a", 403), ("-c", 429), ("open d", 403)], "+a -c open d status", scale("+a")),
            (&[("open d", 403)], "+a +b -c open d status", update("open d")),
            // The picture is old: all is decided anew, and what has failed goes on counting.
            (&[("open d", 409)], "+a +b -c open d", End::Changed),
        ];
        for (refused, asked, end) in table {
            assert_eq!(carried_out(refused).await, (asked.to_owned(), end), "{refused:?}");
        }
        assert_eq!(
            carried_out(&[("+a", 403), ("open d", 409)]).await,
            ("+a -c open d status".to_owned(), scale("+a"))
        );
    }
}
