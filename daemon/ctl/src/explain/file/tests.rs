//! Texts about manifests.

use super::*;

fn said(yaml: &str) -> String {
    words(&outlook(yaml).unwrap())
}

#[test]
fn a_pod_with_an_order() {
    let text = said(
        "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers: [{name: first, env: [{name: KRUISE_CONTAINER_PRIORITY, value: '3'}]}]
  containers:
  - {name: web}
  - {name: api, env: [{name: KRUISE_CONTAINER_PRIORITY, value: '5'}], startupProbe: {exec: {command: [a]}}}
  - {name: log, env: [{name: KRUISE_CONTAINER_PRIORITY, value: '5'}]}
  - {name: db, env: [{name: KRUISE_CONTAINER_PRIORITY, value: '9'}], readinessProbe: {exec: {command: [a]}}}
",
    );
    let expected = "\
Pod web
  note: env KRUISE_CONTAINER_PRIORITY of init container first has no effect: only those of containers have
  When it is deleted: web, then api and log, then db; each after the one before has exited.
  Nodes with the label berth.dev/order=true keep this order, others do not.

BATCH   CONTAINER   PRIORITY   NEXT BATCH WHEN
1       db          9          its readiness probe has succeeded
2       api         5          its startup probe has succeeded
2       log         5          it runs
3       web         0          -
";
    assert_eq!(text, expected);
}

#[test]
fn a_template_of_a_job() {
    let text = said(
        "
apiVersion: batch/v1
kind: Job
metadata: {generateName: batch-}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main}
      - {name: mesh, env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: 'TRUE'}]}
",
    );
    let expected = "\
Job batch-
  When main has ended, mesh is ended too; exit codes of the latter do not count.
  It declares no order: its containers start and end as the kubelet has it.
";
    assert_eq!(text, expected);
}

/// Metadata, spec, and a part of the text about them.
#[test]
fn declarations_without_effect_are_said() {
    let job = "name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
    let priority = "name: KRUISE_CONTAINER_PRIORITY";
    let ordered = "annotations: {apps.kruise.io/container-launch-priority: Ordered}";
    for (metadata, spec, part) in [
        (
            "",
            format!("containers: [{{name: a, env: [{{{job}, value: 'true'}}]}}, {{name: b}}]"),
            "restartPolicy is Always",
        ),
        (
            "",
            format!("restartPolicy: Never, containers: [{{name: a, env: [{{{job}, value: 'true'}}]}}]"),
            "there is no main one",
        ),
        (
            "",
            format!(
                "restartPolicy: Never, containers: [{{name: m}}, \
                 {{name: a, restartPolicy: Always, env: [{{{job}, value: 'true'}}]}}]"
            ),
            "started again after exit code 0",
        ),
        (
            "",
            format!("containers: [{{name: a, env: [{{{job}, value: 'yes'}}]}}]"),
            "is \"yes\": only \"true\"",
        ),
        ("", format!("containers: [{{name: a, env: [{{{job}, valueFrom: {{}}}}]}}]"), "is no plain value"),
        ("", format!("containers: [{{name: a, env: [{{{priority}, value: '1'}}]}}]"), "no two containers"),
        (
            ordered,
            format!("containers: [{{name: a}}, {{name: b, env: [{{{priority}, value: '7'}}]}}]"),
            "annotation apps",
        ),
        (
            "annotations: {berth.dev/container-launch-plan: '{}'}",
            "containers: [{name: a}]".to_owned(),
            "only berthctl play",
        ),
    ] {
        let text =
            said(&format!("{{apiVersion: v1, kind: Pod, metadata: {{{metadata}}}, spec: {{{spec}}}}}"));
        assert!(text.contains("note: ") && text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_order_that_cannot_be_followed_is_an_error() {
    let outlook = outlook(
        "{kind: Pod, metadata: {annotations: {apps.kruise.io/container-launch-priority: 'yes'}}, \
         spec: {containers: [{name: a}, {name: b}]}}",
    )
    .unwrap();
    assert!(outlook.errors[0].contains("its only value is \"Ordered\""), "{outlook:?}");
    assert!(words(&outlook).contains("none of its containers starts"));
}

#[test]
fn what_is_no_pod_is_refused() {
    for (yaml, says) in [
        ("kind: Service\nspec: {ports: []}", "it is a Service without the spec of a pod"),
        ("spec: {}", "it has no kind"),
        ("kind: Pod\nspec: {containers: 7}", "the spec of the pod: invalid type"),
        ("a: [", "unclosed"),
    ] {
        let error = format!("{:#}", outlook(yaml).unwrap_err());
        assert!(error.contains(says), "{error}");
    }
}
