//! Security contexts and resources of a container, in the kubelet's manner.

use anyhow::{Context, Result, bail};
use berth_proto::cri::{
    Capability, Int64Value, LinuxContainerResources, LinuxContainerSecurityContext, NamespaceMode,
    NamespaceOption,
};
use berthd::base::quantity::{CPU_PERIOD, cpu_quota, cpu_shares};

use super::types::{Container, PodSpec, Resources};

/// Paths of /proc and /sys that the kubelet hides by default. The runtime hides the paths it is told to, and
/// nothing else.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// An `Int64Value`, which the CRI uses where 0 and absent differ.
pub(crate) fn number(value: i64) -> Int64Value {
    Int64Value { value }
}

/// The pod's supplemental groups; fsGroup is one of them.
pub(crate) fn groups(spec: &PodSpec) -> Vec<i64> {
    let Some(context) = &spec.security_context else { return Vec::new() };
    context.supplemental_groups.iter().copied().chain(context.fs_group).collect()
}

/// The namespaces of the sandbox and of every container in it.
pub(crate) fn namespaces(spec: &PodSpec) -> NamespaceOption {
    let pod_or_node = |node| if node { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = match (spec.host_pid, spec.share_process_namespace) {
        (true, _) => NamespaceMode::Node,
        (false, true) => NamespaceMode::Pod,
        (false, false) => NamespaceMode::Container,
    };
    NamespaceOption {
        network: pod_or_node(spec.host_network).into(),
        pid: pid.into(),
        ipc: pod_or_node(spec.host_ipc).into(),
        // No mode is TARGET.
        target_id: String::new(),
    }
}

/// The security context of a container: its own fields, else the pod's.
pub(crate) fn context(spec: &PodSpec, container: &Container) -> Result<LinuxContainerSecurityContext> {
    let pod = spec.security_context.as_ref();
    let own = container.security_context.as_ref();
    let user = own.and_then(|own| own.run_as_user).or_else(|| pod.and_then(|pod| pod.run_as_user));
    let group = own.and_then(|own| own.run_as_group).or_else(|| pod.and_then(|pod| pod.run_as_group));
    let non_root =
        own.and_then(|own| own.run_as_non_root).or_else(|| pod.and_then(|pod| pod.run_as_non_root));
    let field = format!("securityContext of container {:?}", container.name);
    if non_root == Some(true) {
        match user {
            Some(0) => bail!("{field}: runAsNonRoot is true and runAsUser is 0; change one of them"),
            Some(_) => {}
            None => bail!("{field}: runAsNonRoot without runAsUser cannot be checked here; give runAsUser"),
        }
    }
    if group.is_some() && user.is_none() {
        // The runtime refuses it too, but later and in its own words.
        bail!("{field}: runAsGroup without runAsUser; give both");
    }
    let privileged = own.is_some_and(|own| own.privileged);
    if privileged && own.and_then(|own| own.allow_privilege_escalation) == Some(false) {
        bail!("{field}: privileged with allowPrivilegeEscalation: false; change one of them");
    }
    Ok(LinuxContainerSecurityContext {
        capabilities: own.map(|own| Capability {
            add_capabilities: own.capabilities.add.clone(),
            drop_capabilities: own.capabilities.drop.clone(),
        }),
        privileged,
        namespace_options: Some(namespaces(spec)),
        run_as_user: user.map(number),
        run_as_username: String::new(),
        readonly_rootfs: own.is_some_and(|own| own.read_only_root_filesystem),
        supplemental_groups: groups(spec),
        no_new_privs: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        run_as_group: group.map(number),
        masked_paths: if privileged { Vec::new() } else { MASKED.map(str::to_owned).into() },
        readonly_paths: if privileged { Vec::new() } else { READ_ONLY.map(str::to_owned).into() },
    })
}

/// cpu and memory; a request that is not given is the limit, as the API server defaults it.
pub(crate) fn resources(container: &Container) -> Result<LinuxContainerResources> {
    let Resources { limits, requests, .. } = &container.resources;
    for (list, name) in
        limits.keys().map(|name| ("limits", name)).chain(requests.keys().map(|name| ("requests", name)))
    {
        if !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            bail!("resources.{list}[{name}] of container {:?} is not supported; take it out", container.name);
        }
    }
    let at = |field: &str| format!("resources.{field} of container {:?}", container.name);
    let cpu_limit = match limits.get("cpu") {
        Some(cpu) => cpu.milli().with_context(|| at("limits[cpu]"))?,
        None => 0,
    };
    let cpu_request = match requests.get("cpu") {
        Some(cpu) => cpu.milli().with_context(|| at("requests[cpu]"))?,
        None => cpu_limit,
    };
    if let Some(memory) = requests.get("memory") {
        memory.whole().with_context(|| at("requests[memory]"))?;
    }
    let best_effort = limits.is_empty() && requests.is_empty();
    Ok(LinuxContainerResources {
        cpu_period: CPU_PERIOD,
        cpu_quota: cpu_quota(cpu_limit).with_context(|| at("limits[cpu]"))?,
        cpu_shares: cpu_shares(cpu_request),
        memory_limit_in_bytes: match limits.get("memory") {
            Some(memory) => memory.whole().with_context(|| at("limits[memory]"))?,
            None => 0,
        },
        // The kubelet ranks by what the pod asks for; between its two ends we leave the runtime's default.
        oom_score_adj: if best_effort { 1000 } else { 0 },
    })
}
