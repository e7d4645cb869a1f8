//! What a manifest may not say, and what it says in vain: all findings at once, each with its field and the remedy.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde_saphyr::Spanned;

use super::types::{Container, Handler, Ignored, Pod, PodSecurityContext, PodSpec, Probe, Refused, Volume};

/// The findings on one manifest.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    ignored: Vec<String>,
    remarks: Vec<String>,
}

/// Checks a manifest; `Ok` has remarks about what will have no effect.
pub fn check(pod: &Pod) -> Result<Vec<String>> {
    let mut findings = Findings::default();
    if pod.api_version != "v1" || pod.kind != "Pod" {
        bail!("it is {} {}; berthctl run plays one v1 Pod", pod.api_version, pod.kind);
    }
    findings.metadata(pod);
    findings.spec(&pod.spec);
    if !findings.errors.is_empty() {
        bail!("{}", findings.errors.join("\n  "));
    }
    if !findings.ignored.is_empty() {
        findings
            .remarks
            .push(format!("without a cluster these have no effect: {}", findings.ignored.join(", ")));
    }
    Ok(findings.remarks)
}

/// A DNS label: what names containers and volumes, and is safe as a file name.
fn is_label(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// A DNS subdomain: what names pods.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

impl Findings {
    fn error(&mut self, field: &str, what: &str) {
        self.errors.push(format!("{field}: {what}"));
    }

    fn refuse(&mut self, field: &str, value: &Refused, remedy: &str) {
        if let Some(at) = value {
            let line = at.referenced.line();
            self.errors.push(format!("line {line}: {field} is not supported by berthctl run; {remedy}"));
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
        if let Some(users) = spec.host_users.as_ref().filter(|users| !users.value) {
            let line = users.referenced.line();
            self.errors.push(format!(
                "line {line}: spec.hostUsers: false (a user namespace) is not supported by berthctl run; {take_out}"
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

    fn seccomp(&mut self, field: &str, profile: Option<&Spanned<super::types::SeccompProfile>>) {
        if let Some(at) = profile.filter(|profile| profile.value.r#type != "Unconfined") {
            let (line, kind) = (at.referenced.line(), &at.value.r#type);
            self.errors.push(format!(
                "line {line}: {field}.seccompProfile {kind} is not supported by berthctl run; use type: Unconfined"
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

    fn volumes(&mut self, volumes: &[Volume]) {
        let mut names = BTreeSet::new();
        for volume in volumes {
            let field = format!("spec.volumes[{}]", volume.name);
            if !is_label(&volume.name) {
                self.error(&field, "the name is not a DNS label (a-z, 0-9, '-')");
            }
            if !names.insert(&volume.name) {
                self.error(&field, "the name is used twice");
            }
            let mut refused = false;
            for (kind, value) in [
                ("configMap", &volume.config_map),
                ("secret", &volume.secret),
                ("projected", &volume.projected),
                ("downwardAPI", &volume.downward_api),
                ("persistentVolumeClaim", &volume.persistent_volume_claim),
                ("csi", &volume.csi),
                ("ephemeral", &volume.ephemeral),
                ("image", &volume.image),
                ("nfs", &volume.nfs),
                ("iscsi", &volume.iscsi),
                ("fc", &volume.fc),
            ] {
                refused |= value.is_some();
                self.refuse(
                    &format!("{field}.{kind}"),
                    value,
                    "put the files on the node and use a hostPath volume",
                );
            }
            match (&volume.empty_dir, &volume.host_path) {
                (Some(_), Some(_)) => self.error(&field, "has both emptyDir and hostPath; give one"),
                (None, None) if !refused => {
                    self.error(&field, "has no source; give emptyDir: {} or hostPath")
                }
                (Some(dir), None) => {
                    if let Some(medium) = dir.medium.as_ref().filter(|medium| !medium.value.is_empty()) {
                        let (line, medium) = (medium.referenced.line(), &medium.value);
                        self.errors.push(format!(
                            "line {line}: {field}.emptyDir.medium {medium} is not supported by berthctl run; take it out"
                        ));
                    }
                    if dir.size_limit.is_some() {
                        self.ignored.push(format!("{field}.emptyDir.sizeLimit"));
                    }
                }
                (None, Some(path)) if !path.path.starts_with('/') => {
                    self.error(&format!("{field}.hostPath.path"), "is not absolute");
                }
                _ => {}
            }
        }
    }

    fn containers(&mut self, spec: &PodSpec) {
        if spec.containers.is_empty() {
            self.error("spec.containers", "is empty; a pod has at least one container");
        }
        let mut names = BTreeSet::new();
        let lists = [("spec.initContainers", &spec.init_containers), ("spec.containers", &spec.containers)];
        for (list, container) in
            lists.into_iter().flat_map(|(list, of)| of.iter().map(move |one| (list, one)))
        {
            let field = format!("{list}[{}]", container.name);
            if !is_label(&container.name) {
                self.error(&field, "the name is not a DNS label (a-z, 0-9, '-')");
            }
            if !names.insert(&container.name) {
                self.error(&field, "the name is used twice");
            }
            self.container(&field, container, spec);
            if list == "spec.initContainers" {
                for (name, probe) in [
                    ("readinessProbe", &container.readiness_probe),
                    ("startupProbe", &container.startup_probe),
                    ("livenessProbe", &container.liveness_probe),
                ] {
                    if probe.is_some() {
                        self.error(&format!("{field}.{name}"), "an init container has no probes");
                    }
                }
            }
        }
    }

    fn container(&mut self, field: &str, container: &Container, spec: &PodSpec) {
        if container.image.is_empty() {
            self.error(&format!("{field}.image"), "is missing");
        }
        if let Some(policy) = container.image_pull_policy.as_deref()
            && !matches!(policy, "Always" | "IfNotPresent" | "Never")
        {
            let what = format!("{policy:?} is none of Always, IfNotPresent, Never");
            self.error(&format!("{field}.imagePullPolicy"), &what);
        }
        self.refuse(&format!("{field}.envFrom"), &container.env_from, "write the variables into env");
        self.refuse(
            &format!("{field}.restartPolicy"),
            &container.restart_policy,
            "make it a regular container (with the highest priority it starts first)",
        );
        self.refuse(&format!("{field}.restartPolicyRules"), &container.restart_policy_rules, "take it out");
        self.refuse(&format!("{field}.volumeDevices"), &container.volume_devices, "take it out");
        self.refuse(&format!("{field}.resources.claims"), &container.resources.claims, "take it out");
        if container.resize_policy.is_some() {
            self.ignored.push(format!("{field}.resizePolicy"));
        }
        for env in &container.env {
            let field = format!("{field}.env[{}]", env.name);
            if env.name.is_empty() || env.name.contains(['=', '\0']) {
                self.error(&field, "is no name for an environment variable");
            }
            let Some(source) = &env.value_from else { continue };
            if env.value.is_some() {
                self.error(&field, "has both value and valueFrom; give one");
            }
            for (kind, value) in [
                ("resourceFieldRef", &source.resource_field_ref),
                ("configMapKeyRef", &source.config_map_key_ref),
                ("secretKeyRef", &source.secret_key_ref),
                ("fileKeyRef", &source.file_key_ref),
            ] {
                self.refuse(&format!("{field}.valueFrom.{kind}"), value, "give a plain value");
            }
        }
        for port in &container.ports {
            let field = format!("{field}.ports[{}]", port.container_port);
            if !(1..=65535).contains(&port.container_port)
                || port.host_port.is_some_and(|port| !(0..=65535).contains(&port))
            {
                self.error(&field, "a port is a number from 1 to 65535");
            }
            if let Some(protocol) =
                port.protocol.as_deref().filter(|name| !matches!(*name, "TCP" | "UDP" | "SCTP"))
            {
                self.error(&field, &format!("protocol {protocol:?} is none of TCP, UDP, SCTP"));
            }
        }
        for mount in &container.volume_mounts {
            let field = format!("{field}.volumeMounts[{}]", mount.name);
            if !spec.volumes.iter().any(|volume| volume.name == mount.name) {
                self.error(&field, "spec.volumes has no volume of that name");
            }
            if mount.mount_path.is_empty() {
                self.error(&format!("{field}.mountPath"), "is missing");
            }
            self.refuse(&format!("{field}.subPath"), &mount.sub_path, "mount the whole volume");
            self.refuse(&format!("{field}.subPathExpr"), &mount.sub_path_expr, "mount the whole volume");
            self.refuse(&format!("{field}.recursiveReadOnly"), &mount.recursive_read_only, "use readOnly");
        }
        self.refuse(
            &format!("{field}.lifecycle.stopSignal"),
            &container.lifecycle.stop_signal,
            "take it out",
        );
        self.handler(&format!("{field}.lifecycle.postStart"), container.lifecycle.post_start.as_ref());
        self.handler(&format!("{field}.lifecycle.preStop"), container.lifecycle.pre_stop.as_ref());
        self.probe(&format!("{field}.readinessProbe"), container.readiness_probe.as_ref());
        self.probe(&format!("{field}.startupProbe"), container.startup_probe.as_ref());
        self.probe(&format!("{field}.livenessProbe"), container.liveness_probe.as_ref());
        if container.liveness_probe.is_some() {
            self.remarks
                .push(format!("{field}.livenessProbe is not acted on: nobody restarts the container"));
        }
        if let Some(context) = &container.security_context {
            let field = format!("{field}.securityContext");
            for (name, value) in [
                ("procMount", &context.proc_mount),
                ("appArmorProfile", &context.app_armor_profile),
                ("seLinuxOptions", &context.se_linux_options),
                ("windowsOptions", &context.windows_options),
            ] {
                self.refuse(&format!("{field}.{name}"), value, "take it out");
            }
            self.seccomp(&field, context.seccomp_profile.as_ref());
        }
    }

    fn handler(&mut self, field: &str, handler: Option<&Handler>) {
        let Some(handler) = handler else { return };
        self.refuse(&format!("{field}.httpGet"), &handler.http_get, "use exec");
        self.refuse(&format!("{field}.tcpSocket"), &handler.tcp_socket, "use exec");
        let refused = handler.http_get.is_some() || handler.tcp_socket.is_some();
        match (&handler.exec, &handler.sleep) {
            (Some(exec), None) if exec.command.is_empty() => {
                self.error(&format!("{field}.exec.command"), "is empty")
            }
            (Some(_), None) | (None, Some(_)) => {}
            _ if refused => {}
            _ => self.error(field, "give exactly one of exec, sleep"),
        }
    }

    fn probe(&mut self, field: &str, probe: Option<&Probe>) {
        let Some(probe) = probe else { return };
        self.refuse(&format!("{field}.grpc"), &probe.grpc, "use exec, httpGet or tcpSocket");
        let handlers = [probe.exec.is_some(), probe.http_get.is_some(), probe.tcp_socket.is_some()];
        if probe.grpc.is_none() && handlers.iter().filter(|given| **given).count() != 1 {
            self.error(field, "give exactly one of exec, httpGet, tcpSocket");
        }
        if probe.exec.as_ref().is_some_and(|exec| exec.command.is_empty()) {
            self.error(&format!("{field}.exec.command"), "is empty");
        }
        if let Some(scheme) = probe.http_get.as_ref().and_then(|get| get.scheme.as_deref())
            && scheme != "HTTP"
        {
            self.error(
                &format!("{field}.httpGet.scheme"),
                &format!("{scheme:?} is not supported; use HTTP, tcpSocket or exec"),
            );
        }
        for (name, value) in [
            ("periodSeconds", probe.period_seconds),
            ("timeoutSeconds", probe.timeout_seconds),
            ("successThreshold", probe.success_threshold),
            ("failureThreshold", probe.failure_threshold),
        ] {
            if value == Some(0) {
                self.error(&format!("{field}.{name}"), "must be at least 1");
            }
        }
    }
}
