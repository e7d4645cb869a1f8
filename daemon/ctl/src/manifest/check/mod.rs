//! Findings of what a manifest may not say, and of what it says in vain: all at once, each with its field and
//! the remedy.

mod container;
mod volume;

use anyhow::{Result, bail};
use berth_proto::names::{self, is_dns_label as is_label};
use berthd::base::yaml::Document;

use super::types::{Ignored, Pod, PodSecurityContext, PodSpec, Refused, SeccompProfile};

/// The findings on one manifest.
struct Findings<'d> {
    /// Tells the line of a field.
    document: &'d Document<'d>,
    errors: Vec<String>,
    ignored: Vec<String>,
    remarks: Vec<String>,
}

/// Checks a manifest; `Ok` has remarks about what will have no effect.
pub(crate) fn check(pod: &Pod, document: &Document<'_>) -> Result<Vec<String>> {
    let (errors, ignored, remarks) = (Vec::new(), Vec::new(), Vec::new());
    let mut findings = Findings { document, errors, ignored, remarks };
    if pod.api_version != "v1" || pod.kind != "Pod" {
        bail!("it is {} {}; berthctl play plays one v1 Pod", pod.api_version, pod.kind);
    }
    findings.metadata(pod);
    findings.spec(&pod.spec);
    match findings.errors.as_slice() {
        [] => {}
        [only] => bail!("{only}"),
        several => bail!("\n  {}", several.join("\n  ")),
    }
    if !findings.ignored.is_empty() {
        findings
            .remarks
            .push(format!("without a cluster these have no effect: {}", findings.ignored.join(", ")));
    }
    Ok(findings.remarks)
}

/// The name of a pod. Each part of it may become the name of a host, so each is as long as one may be.
fn is_subdomain(name: &str) -> bool {
    names::is_dns_subdomain(name) && name.split('.').all(is_label)
}

impl Findings<'_> {
    fn error(&mut self, field: &str, what: &str) {
        self.errors.push(format!("{field}: {what}"));
    }

    fn refuse(&mut self, field: &str, value: &Refused, remedy: &str) {
        if value.is_some() {
            let line = self.document.line_of(field);
            self.errors.push(format!("line {line}: {field} is not supported by berthctl play; {remedy}"));
        }
    }

    fn ignore(&mut self, fields: &[(&str, &Ignored)]) {
        self.ignored
            .extend(fields.iter().filter(|(_, value)| value.is_some()).map(|(field, _)| (*field).to_owned()));
    }

    fn metadata(&mut self, pod: &Pod) {
        let metadata = &pod.metadata;
        self.refuse("metadata.generateName", &metadata.generate_name, "give metadata.name");
        if metadata.name.is_empty() {
            self.error("metadata.name", "is missing");
        } else if !is_subdomain(&metadata.name) {
            self.error(
                "metadata.name",
                &format!("{:?} is not a DNS name (a-z, 0-9, '-', '.')", metadata.name),
            );
        }
        if let Some(namespace) = metadata.namespace.as_deref().filter(|name| !is_label(name)) {
            self.error("metadata.namespace", &format!("{namespace:?} is not a DNS label (a-z, 0-9, '-')"));
        }
        if let Some(uid) = metadata.uid.as_deref().filter(|uid| !is_label(uid)) {
            self.error(
                "metadata.uid",
                &format!("{uid:?} is not a UID (a-z, 0-9, '-'); leave it out to get one"),
            );
        }
    }

    fn spec(&mut self, spec: &PodSpec) {
        let take_out = "take it out";
        self.refuse("spec.ephemeralContainers", &spec.ephemeral_containers, take_out);
        self.refuse("spec.hostAliases", &spec.host_aliases, "mount a hosts file by a hostPath volume");
        self.refuse(
            "spec.imagePullSecrets",
            &spec.image_pull_secrets,
            "there is no API server to read secrets from: pull the image beforehand and set imagePullPolicy: IfNotPresent",
        );
        self.refuse("spec.resourceClaims", &spec.resource_claims, take_out);
        self.refuse("spec.resources", &spec.resources, "set the resources of the containers");
        self.refuse("spec.runtimeClassName", &spec.runtime_class_name, "use --runtime-handler");
        self.refuse("spec.setHostnameAsFQDN", &spec.set_hostname_as_fqdn, "set spec.hostname");
        if spec.host_users == Some(false) {
            let line = self.document.line_of("spec.hostUsers");
            self.errors.push(format!(
                "line {line}: spec.hostUsers: false (a user namespace) is not supported by berthctl play; {take_out}"
            ));
        }
        self.ignore(&[
            ("spec.activeDeadlineSeconds", &spec.active_deadline_seconds),
            ("spec.affinity", &spec.affinity),
            ("spec.automountServiceAccountToken", &spec.automount_service_account_token),
            ("spec.enableServiceLinks", &spec.enable_service_links),
            ("spec.nodeSelector", &spec.node_selector),
            ("spec.os", &spec.os),
            ("spec.overhead", &spec.overhead),
            ("spec.preemptionPolicy", &spec.preemption_policy),
            ("spec.priority", &spec.priority),
            ("spec.priorityClassName", &spec.priority_class_name),
            ("spec.readinessGates", &spec.readiness_gates),
            ("spec.schedulerName", &spec.scheduler_name),
            ("spec.schedulingGates", &spec.scheduling_gates),
            ("spec.serviceAccount", &spec.service_account),
            ("spec.subdomain", &spec.subdomain),
            ("spec.tolerations", &spec.tolerations),
            ("spec.topologySpreadConstraints", &spec.topology_spread_constraints),
        ]);
        match spec.restart_policy.as_deref() {
            Some("Never") => {}
            None | Some("Always" | "OnFailure") => self.remarks.push(format!(
                "restartPolicy is {}, but nobody restarts containers that berthctl has played",
                spec.restart_policy.as_deref().unwrap_or("Always (the default)")
            )),
            Some(other) => {
                self.error("spec.restartPolicy", &format!("{other:?} is none of Always, OnFailure, Never"));
            }
        }
        if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
            self.error("spec.terminationGracePeriodSeconds", "must not be negative");
        }
        if let Some(hostname) = spec.hostname.as_deref().filter(|name| !is_label(name)) {
            self.error("spec.hostname", &format!("{hostname:?} is not a DNS label (a-z, 0-9, '-')"));
        }
        match spec.dns_policy.as_deref() {
            None | Some("Default" | "ClusterFirst" | "ClusterFirstWithHostNet")
                if spec.dns_config.is_some() =>
            {
                self.error(
                    "spec.dnsConfig",
                    "is played with dnsPolicy: None only; the node's resolv.conf is used otherwise",
                );
            }
            None | Some("Default") => {}
            Some("None") if spec.dns_config.as_ref().is_none_or(|config| config.nameservers.is_empty()) => {
                self.error("spec.dnsConfig.nameservers", "is required with dnsPolicy: None");
            }
            Some("None") => {}
            Some("ClusterFirst" | "ClusterFirstWithHostNet") => {
                self.remarks.push("there is no cluster DNS: the node's resolv.conf is used".to_owned());
            }
            Some(other) => self.error("spec.dnsPolicy", &format!("{other:?} is no DNS policy")),
        }
        if let Some(context) = &spec.security_context {
            self.pod_security(context);
        }
        self.volumes(&spec.volumes);
        self.containers(spec);
    }

    fn seccomp(&mut self, field: &str, profile: Option<&SeccompProfile>) {
        if let Some(SeccompProfile { r#type: kind, .. }) = profile.filter(|one| one.r#type != "Unconfined") {
            let line = self.document.line_of(&format!("{field}.seccompProfile"));
            self.errors.push(format!(
                "line {line}: {field}.seccompProfile {kind} is not supported by berthctl play; use type: Unconfined"
            ));
        }
    }

    fn pod_security(&mut self, context: &PodSecurityContext) {
        let field = "spec.securityContext";
        for (name, value) in [
            ("supplementalGroupsPolicy", &context.supplemental_groups_policy),
            ("appArmorProfile", &context.app_armor_profile),
            ("seLinuxOptions", &context.se_linux_options),
            ("seLinuxChangePolicy", &context.se_linux_change_policy),
            ("sysctls", &context.sysctls),
            ("windowsOptions", &context.windows_options),
        ] {
            self.refuse(&format!("{field}.{name}"), value, "take it out");
        }
        self.seccomp(field, context.seccomp_profile.as_ref());
        self.ignore(&[("spec.securityContext.fsGroupChangePolicy", &context.fs_group_change_policy)]);
    }
}
