//! Containers: what a manifest may not say about them.

use std::collections::BTreeSet;

use super::{Findings, is_label};
use crate::manifest::types::{Container, Handler, PodSpec, Probe};

impl Findings<'_> {
    pub(super) fn containers(&mut self, spec: &PodSpec) {
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
                self.error(&format!("{field}.exec.command"), "is empty");
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
