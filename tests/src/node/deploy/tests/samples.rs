//! The samples.

use super::*;

#[test]
fn samples_are_what_they_say() {
    let pods = all::<Pod>("samples", "Pod");
    assert_eq!(pods.len(), 6);
    let requests = all::<berth_proto::crd::ContainerRecreateRequest>("samples", "ContainerRecreateRequest");
    let [request] = &requests[..] else { panic!("one request") };
    let pod = pods.iter().find(|pod| pod.name_any() == request.spec.pod_name).unwrap();
    for container in &request.spec.containers {
        assert!(pod.spec.as_ref().unwrap().containers.iter().any(|other| other.name == container.name));
    }
    let updates = all::<berth_proto::crd::ContainerUpdateRequest>("samples", "ContainerUpdateRequest");
    let [update] = &updates[..] else { panic!("one update") };
    let pod = pods.iter().find(|pod| pod.name_any() == update.spec.pod_name).unwrap();
    let containers = &pod.spec.as_ref().unwrap().containers;
    for wanted in &update.spec.containers {
        let container = containers.iter().find(|container| container.name == wanted.name).unwrap();
        assert_ne!(container.image.as_ref(), Some(&wanted.image));
    }
    let read = serde_json::to_string(containers).unwrap();
    for (key, value) in &update.spec.metadata.as_ref().unwrap().annotations {
        assert!(read.contains(&format!("metadata.annotations['{key}']")), "nothing reads {key}");
        assert_ne!(pod.annotations().get(key), Some(value));
    }
    let markers = all::<berth_proto::crd::PodProbeMarker>("samples", "PodProbeMarker");
    let [marker] = &markers[..] else { panic!("one marker") };
    let selected = marker.spec.selector.match_labels.as_ref().unwrap();
    let pod = pods.iter().find(|pod| pod.metadata.labels.as_ref() == Some(selected)).unwrap();
    for probe in &marker.spec.probes {
        assert!(pod.spec.as_ref().unwrap().containers.iter().any(|one| one.name == probe.container_name));
    }
    let mut sets = all::<Value>("samples", "SidecarSet");
    for set in &mut sets {
        berth_sidecarset::complete(set, None).unwrap();
        let faults = berth_sidecarset::check(set, None, &[], &berth_sidecarset::WhiteList::default());
        assert!(faults.is_empty() && berth_sidecarset::warnings(set).is_empty(), "{faults:?}");
    }
    let deployments = all::<Value>("samples", "Deployment");
    let (set, template) = (named(&sets, "logs"), &named(&deployments, "with-logs")["spec"]["template"]);
    assert!(selects(&set["spec"], &template["metadata"]["labels"]));
    let source = &set["spec"]["containers"][0]["transferEnv"][0];
    let app = &template["spec"]["containers"][0];
    assert_eq!(source["sourceContainerName"], app["name"]);
    assert_eq!(source["envName"], app["env"][0]["name"]);
    let pod = pods.iter().find(|pod| pod.name_any() == "asks-mesh").unwrap();
    assert!(selects(&named(&sets, "mesh")["spec"], &json!(pod.labels())));
    let budgets = all::<berth_proto::crd::PodUnavailableBudget>("samples", "PodUnavailableBudget");
    let [budget] = &budgets[..] else { panic!("one budget") };
    let limited = named(&deployments, &budget.spec.target_ref.as_ref().unwrap().name);
    assert!(selects(&limited["spec"], &limited["spec"]["template"]["metadata"]["labels"]));
    let broadcasts = all::<berth_proto::crd::BroadcastJob>("samples", "BroadcastJob");
    let crons = all::<berth_proto::crd::AdvancedCronJob>("samples", "AdvancedCronJob");
    let spreads = all::<berth_proto::crd::WorkloadSpread>("samples", "WorkloadSpread");
    assert_eq!((broadcasts.len(), crons.len(), spreads.len()), (1, 1, 1));
    let [state] = &all::<berth_proto::crd::PersistentPodState>("samples", "PersistentPodState")[..] else {
        panic!("one PersistentPodState")
    };
    assert!(berth_pod_state::Rules::of(&state.spec).is_ok());
    let stateful = all::<Value>("samples", "StatefulSet");
    let stays = named(&stateful, "stays");
    assert!(selects(&stays["spec"], &stays["spec"]["template"]["metadata"]["labels"]));
    let [united] = &all::<berth_proto::crd::UnitedDeployment>("samples", "UnitedDeployment")[..] else {
        panic!("one UnitedDeployment")
    };
    let template = &united.spec.template.clone_set_template.as_ref().unwrap().0["spec"]["template"];
    for (key, value) in united.spec.selector.match_labels.as_ref().unwrap() {
        assert_eq!(template["metadata"]["labels"][key], *value);
    }
    let numbered: berth_proto::crd::AdvancedStatefulSet =
        serde_json::from_value(named(&stateful, "numbered").clone()).unwrap();
    let [everywhere] = &all::<berth_proto::crd::AdvancedDaemonSet>("samples", "DaemonSet")[..] else {
        panic!("one DaemonSet")
    };
    let sets = [
        (&numbered.spec.selector, &numbered.spec.template),
        (&everywhere.spec.selector, &everywhere.spec.template),
    ];
    for (selector, template) in sets {
        let labels = &template.0["metadata"]["labels"];
        for (key, value) in selector.match_labels.as_ref().unwrap() {
            assert_eq!(labels[key], *value);
        }
    }
    let mounted = &numbered.spec.template.0["spec"]["containers"][0]["volumeMounts"][0]["name"];
    assert_eq!(*mounted, *numbered.spec.volume_claim_templates[0].name());
    let jobs = all::<berth_proto::crd::ImagePullJob>("samples", "ImagePullJob");
    assert_eq!(jobs.len(), 2);
    let job = jobs.iter().find(|job| !job.spec.pull_secrets.is_empty()).unwrap();
    let [role] = &all::<Role>("samples", "Role")[..] else { panic!("one role") };
    let granted = grants(&role.name_any(), role.rules.clone());
    let secret = &job.spec.pull_secrets[0];
    assert_eq!(granted, [format!("berth-pull-secrets: get /secrets only {secret}")]);
    let [binding] = &all::<RoleBinding>("samples", "RoleBinding")[..] else { panic!("one binding") };
    let subject = &binding.subjects.as_ref().unwrap()[0];
    assert_eq!(
        (subject.name.as_str(), subject.namespace.as_deref()),
        ("berth-manager", Some("berth-system"))
    );
}

/// The object of this name.
fn named<'a>(objects: &'a [Value], name: &str) -> &'a Value {
    objects.iter().find(|object| object["metadata"]["name"] == name).unwrap()
}

/// Tells whether labels are those that a spec selects.
fn selects(spec: &Value, labels: &Value) -> bool {
    let selected = spec["selector"]["matchLabels"].as_object().unwrap();
    selected.iter().all(|(key, value)| labels[key] == *value)
}
