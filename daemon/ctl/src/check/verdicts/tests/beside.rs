//! A cluster with both: who owns which kind, who may write a status, who converts, and rollouts that hang.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};

use super::super::super::ownership::{SHARED, is_of_berth};
use super::super::super::read::{daemon_set, deployment, entries_of, writers};
use super::*;

const BOTH_OFF: &str = "KruiseDaemon=false,ResourceDistributionGate=false";

/// A cluster in which all of Berth is well, beside an OpenKruise's manager with these gates.
fn beside(ownership: &str, gates: &str, asked: &[&str]) -> Facts {
    let mut facts = well();
    let programs = facts.programs.as_mut().unwrap();
    programs.get_mut("Deployment/berth-manager").unwrap().ownership = Some(ownership.to_owned());
    let manager = Program {
        namespace: "kruise-system".to_owned(),
        gates: gates.to_owned(),
        account: Some("kruise-manager".to_owned()),
        ..program(1, 1)
    };
    programs.insert("Deployment/kruise-controller-manager".to_owned(), manager);
    let webhooks = Webhooks {
        entries: 9,
        resources: asked.iter().map(|resource| (*resource).to_owned()).collect(),
        ..Webhooks::default()
    };
    let name = "mutatingwebhookconfiguration/kruise-mutating-webhook-configuration".to_owned();
    facts.webhooks.as_mut().unwrap().insert(name, webhooks);
    facts
}

/// Checks of OpenKruise, as `verdict: found`.
fn of_openkruise(facts: &Facts) -> Vec<String> {
    let all = checks(facts, false, now()).into_iter().filter(|check| check.check == "openkruise");
    all.map(|check| format!("{:?}: {}", check.verdict, check.found)).collect()
}

#[test]
fn kinds_that_are_divided_are_told() {
    let first_five = "AdvancedCronJob, BroadcastJob, CloneSet, DaemonSet, PersistentPodState";
    let fail = |found: &str| format!("Fail: {found}");
    let both =
        |kinds: &str| fail(&format!("its manager runs, and acts on kinds of Berth's as well: {kinds}"));
    let acts = |kind: &str| fail(&format!("its manager acts on {kind} as well, which is Berth's"));
    let untried = |kinds: &str| format!("Warn: nobody has tried to keep its manager from {kinds}");
    let ok = |owner: &str| vec![format!("Ok: its manager runs; owners of kinds: {owner}")];
    let four = "openkruise,ContainerRecreateRequest=berth,ImagePullJob=berth,PodProbeMarker=berth,\
                ResourceDistribution=berth";
    let refuse = |kind: &str, gate: &str| {
        fail(&format!("its webhooks refuse {kind}, which is Berth's: {gate} is off"))
    };
    let table: [(&str, &str, &[&str], Vec<String>); 11] = [
        ("openkruise", "", &["clonesets", "imagepulljobs"], ok("openkruise")),
        (four, BOTH_OFF, &["clonesets"], ok(four)),
        (four, "KruiseDaemon=false", &[], ok(four)),
        (
            four,
            "ResourceDistributionGate=true",
            &[],
            ["ContainerRecreateRequest", "ImagePullJob", "PodProbeMarker", "ResourceDistribution"]
                .map(acts)
                .into(),
        ),
        (
            "openkruise,ImagePullJob=berth",
            "KruiseDaemon=false,KruiseDaemon=true",
            &[],
            vec![acts("ImagePullJob")],
        ),
        (
            "openkruise,ImagePullJob=berth",
            BOTH_OFF,
            &["nodeimages"],
            vec![refuse("ImagePullJob", "KruiseDaemon")],
        ),
        (
            "openkruise,ResourceDistribution=berth",
            "",
            &["resourcedistributions"],
            vec![refuse("ResourceDistribution", "ResourceDistributionGate")],
        ),
        ("openkruise,CloneSet=berth", BOTH_OFF, &[], vec![both("CloneSet")]),
        ("openkruise,WorkloadSpread=berth", BOTH_OFF, &[], vec![untried("WorkloadSpread")]),
        (
            "berth",
            BOTH_OFF,
            &[],
            vec![both(&format!("{first_five} and 3 more")), untried("PodUnavailableBudget, WorkloadSpread")],
        ),
        (
            "detect",
            "",
            &[],
            vec!["Warn: its manager runs: the kinds that both have are left to it, all of them".to_owned()],
        ),
    ];
    for (ownership, gates, asked, expected) in table {
        assert_eq!(of_openkruise(&beside(ownership, gates, asked)), expected, "{ownership} {gates}");
    }
    // Any of the programs may have it.
    let mut facts = beside("openkruise", "", &[]);
    let own = Program { ownership: Some("openkruise,DaemonSet=berth".to_owned()), ..program(1, 1) };
    facts.programs.as_mut().unwrap().insert("Deployment/berth-workloads".to_owned(), own);
    assert_eq!(of_openkruise(&facts), [both("DaemonSet")]);
}

#[test]
fn the_shared_kinds_are_those_of_the_programs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manager/base/src/ownership.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let names = text.lines().filter_map(|line| line.split_once(" => \"")?.1.strip_suffix("\","));
    assert_eq!(names.collect::<Vec<_>>(), SHARED.each_ref().map(|kind| kind.name));
    for (ownership, count) in [
        ("berth", 14),
        ("berth,CloneSet=openkruise", 13),
        ("openkruise,CloneSet=berth", 1),
        ("openkruise", 0),
        ("detect", 0),
        ("", 0),
    ] {
        let ours = SHARED.iter().filter(|kind| is_of_berth(ownership, kind)).count();
        assert_eq!(ours, count, "{ownership}");
    }
}

#[test]
fn statuses_that_openkruise_may_not_write_are_told() {
    let account = |name: &str, resources: &[&'static str]| (name.to_owned(), resources.to_vec());
    let of_manager = account("kruise-system:kruise-manager", &["imagepulljobs", "sidecarsets"]);
    let elsewhere = account("elsewhere:manager", &["sidecarsets"]);
    let component = "add the component openkruise: kubectl apply --server-side -f \
                     deploy/openkruise/writers.yaml; docs/migration.md";
    let binding = "kubectl create clusterrolebinding elsewhere-manager-writes-statuses \
                   --clusterrole=berth-status-writer --serviceaccount=elsewhere:manager; docs/migration.md";
    let all = "kruise-system:kruise-manager may not write the status of imagepulljobs, sidecarsets";
    let one = "kruise-system:kruise-manager may not write the status of sidecarsets";
    let table = [
        ("detect", vec![of_manager.clone()], vec![(all, component)]),
        ("openkruise,ImagePullJob=berth", vec![of_manager.clone()], vec![(one, component)]),
        (
            "detect",
            vec![elsewhere],
            vec![("elsewhere:manager may not write the status of sidecarsets", binding)],
        ),
        ("detect", vec![account("kruise-system:kruise-manager", &[])], vec![]),
        ("detect", vec![], vec![]),
    ];
    for (ownership, refused, expected) in table {
        let mut facts = beside(ownership, BOTH_OFF, &[]);
        facts.refused = Ok(refused.into_iter().collect());
        for pre in [true, false] {
            let all = checks(&facts, pre, now());
            let failed = all.iter().filter(|check| check.verdict == Verdict::Fail);
            let failed: Vec<_> = failed.map(|check| (check.found.as_str(), check.remedy.as_str())).collect();
            assert_eq!(failed, expected, "{ownership}");
        }
    }
    let mut facts = beside("detect", "", &[]);
    facts.refused = Err("forbidden".to_owned());
    assert!(of_openkruise(&facts).contains(&"Warn: not known: forbidden".to_owned()));
    // Nobody asks for it without an OpenKruise.
    facts = well();
    facts.refused = Err("forbidden".to_owned());
    assert_eq!(of_openkruise(&facts), ["Ok: none runs"]);
}

#[test]
fn writers_are_asked_for_where_both_are() {
    let mut facts = beside("detect", "", &[]);
    let count = |facts: &Facts| writers(facts.programs.as_ref().ok(), facts.policies.as_ref().ok()).len();
    assert_eq!(count(&facts), 1);
    let daemon = Program { namespace: "kruise-system".to_owned(), ..program(3, 0) };
    facts.programs.as_mut().unwrap().insert("DaemonSet/kruise-daemon".to_owned(), daemon);
    assert_eq!(count(&facts), 2);
    assert_eq!(count(&Facts { policies: Ok(vec!["berth-agent".to_owned()]), ..facts.clone() }), 0);
    facts.programs.as_mut().unwrap().get_mut("Deployment/kruise-controller-manager").unwrap().wanted = 0;
    assert_eq!(count(&facts), 0);
}

#[test]
fn conversions_of_others_fail() {
    const OURS: &str = "berth-system/berth-manager";
    const KRUISE: &str = "kruise-system/kruise-webhook-service";
    let other = "is converted by kruise-system/kruise-webhook-service, which is not Berth's";
    let table = [
        ("statefulsets.apps.kruise.io", OURS, 2, None, None),
        (
            "statefulsets.apps.kruise.io",
            OURS,
            0,
            None,
            Some(
                "is converted by berth-system/berth-manager, which has no endpoint: its other version cannot be read",
            ),
        ),
        (
            "statefulsets.apps.kruise.io",
            KRUISE,
            0,
            None,
            Some(
                "is converted by kruise-system/kruise-webhook-service, not Berth's, which has no endpoint: its \
                 other version cannot be read",
            ),
        ),
        ("statefulsets.apps.kruise.io", KRUISE, 1, None, Some(other)),
        ("clonesets.apps.kruise.io", KRUISE, 1, None, Some(other)),
        // It is OpenKruise's, which runs.
        ("statefulsets.apps.kruise.io", KRUISE, 1, Some("detect"), None),
        ("statefulsets.apps.kruise.io", KRUISE, 1, Some("openkruise,StatefulSet=berth"), Some(other)),
        // Berth has no such kind.
        ("ephemeraljobs.apps.kruise.io", KRUISE, 0, None, None),
        (
            "statefulsets.apps.kruise.io",
            "https://a/b",
            0,
            None,
            Some("is converted by https://a/b, which is not Berth's"),
        ),
    ];
    for (name, converter, endpoints, ownership, expected) in table {
        let mut facts = ownership.map_or_else(well, |ownership| beside(ownership, "", &[]));
        let definition = Definition { converter: Some(converter.to_owned()), ..ours(&["v1alpha1"]) };
        facts.definitions.as_mut().unwrap().insert(name.to_owned(), definition);
        let is_service = !converter.contains("://");
        facts.endpoints = Ok(is_service.then(|| (converter.to_owned(), endpoints)).into_iter().collect());
        let failed = findings(&facts, false, Verdict::Fail);
        let failed: Vec<_> = failed.iter().filter(|found| found.starts_with("definitions")).collect();
        let expected = expected.map(|found| format!("definitions: {name} {found}"));
        assert_eq!(failed, expected.iter().collect::<Vec<_>>());
    }
    let mut facts = well();
    facts.endpoints = Err("forbidden".to_owned());
    assert!(findings(&facts, false, Verdict::Warn).is_empty(), "there is no Service to look at");
    let definition = Definition { converter: Some(OURS.to_owned()), ..ours(&["v1beta1"]) };
    facts.definitions.as_mut().unwrap().insert("statefulsets.apps.kruise.io".to_owned(), definition);
    assert_eq!(findings(&facts, false, Verdict::Warn), ["definitions: not known: forbidden"]);
}

#[test]
fn a_rollout_that_hangs_is_told() {
    let manager = "Deployment/berth-manager";
    let agent = "DaemonSet/berth-agent";
    let of = |name: &str, status: serde_json::Value, generation: i64| {
        let template = json!({ "metadata": {}, "spec": { "serviceAccountName": "account", "containers": [
            { "name": "a", "image": "b:1", "args": ["--feature-gates=A=true", "--feature-gates=B=false"] }] } });
        let object = json!({
            "metadata": { "name": name.split_once('/').unwrap().1, "generation": generation },
            "spec": { "replicas": 2, "selector": {}, "template": template },
            "status": status,
        });
        let (read_as, program) = match name == agent {
            true => daemon_set("berth-system", serde_json::from_value::<DaemonSet>(object).unwrap()).unwrap(),
            false => {
                deployment("berth-system", serde_json::from_value::<Deployment>(object).unwrap()).unwrap()
            }
        };
        assert_eq!(read_as, name);
        assert_eq!(program.account.as_deref(), Some("account"));
        assert_eq!(program.gates, "A=true,B=false");
        program
    };
    let status = |replicas: i32, updated: i32, ready: i32| json!({ "observedGeneration": 4, "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready });
    let nodes = |updated: i32, ready: i32| {
        json!({ "observedGeneration": 4, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
            "numberMisscheduled": 0, "updatedNumberScheduled": updated, "numberReady": ready })
    };
    let table = [
        (manager, status(2, 2, 2), 4, Verdict::Ok, "2 of 2 Ready"),
        (
            manager,
            status(3, 1, 2),
            4,
            Verdict::Fail,
            "2 of 2 Ready, 1 of the newest template and 2 of older ones",
        ),
        (
            manager,
            status(3, 2, 2),
            4,
            Verdict::Fail,
            "2 of 2 Ready, 2 of the newest template and 1 of older ones",
        ),
        (manager, status(1, 1, 1), 4, Verdict::Fail, "1 of 2 Ready, 1 of the newest template"),
        (manager, status(2, 2, 2), 5, Verdict::Fail, "2 of 2 Ready, its newest template not begun"),
        (manager, status(2, 2, 1), 4, Verdict::Warn, "1 of 2 Ready"),
        (manager, status(2, 2, 0), 4, Verdict::Fail, "0 of 2 Ready"),
        (manager, json!({}), 1, Verdict::Fail, "0 of 2 Ready"),
        (agent, nodes(2, 2), 4, Verdict::Ok, "2 of 2 Ready"),
        (agent, nodes(1, 2), 4, Verdict::Warn, "2 of 2 Ready, 1 of the newest template"),
        (agent, nodes(2, 1), 4, Verdict::Warn, "1 of 2 Ready"),
    ];
    for (name, status, generation, verdict, found) in table {
        let mut facts = well();
        facts.programs.as_mut().unwrap().insert(name.to_owned(), of(name, status.clone(), generation));
        let all = checks(&facts, false, now());
        let said = all.iter().find(|check| check.found.starts_with(name)).unwrap();
        assert_eq!(
            (said.verdict, said.found.as_str()),
            (verdict, format!("{name}: {found}").as_str()),
            "{status}"
        );
    }
}

#[test]
fn entries_are_read_with_their_resources() {
    let entry = |service: serde_json::Value, group: &str, resource: &str| -> MutatingWebhook {
        serde_json::from_value(json!({
            "name": "a", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": service },
            "rules": [{ "apiGroups": [group], "resources": [resource] }],
        }))
        .unwrap()
    };
    let service = json!({ "namespace": "elsewhere", "name": "kruise-webhook-service" });
    let entries = [
        entry(service.clone(), "apps.kruise.io", "nodeimages"),
        entry(service.clone(), "policy.kruise.io", "podunavailablebudgets"),
        entry(service, "apps", "statefulsets"),
    ];
    let read = entries_of(entries.iter().map(|entry| (&entry.client_config, &entry.rules)));
    assert_eq!(
        read,
        Webhooks {
            namespace: Some("elsewhere".to_owned()),
            entries: 3,
            without_bundle: 3,
            resources: ["nodeimages", "podunavailablebudgets"].map(str::to_owned).into(),
        }
    );
}
