//! The Go types of a sidecar: core/v1 Container as Kubernetes 1.34 has it, then the members of a sidecar.
//! Newer members that nobody gives change no text.

use serde_json::Value;

use super::encode::{Field, Kind, When, encode};
use crate::fault::Fault;

use Kind::{Either, Flag, Int32, Int64, List, Map, Quantity, Struct, Text};
use When::{Always, Filled, Given, Nullable};

const PORT: &[Field] = &[
    ("name", Filled, Text),
    ("hostPort", Filled, Int32),
    ("containerPort", Always, Int32),
    ("protocol", Filled, Text),
    ("hostIP", Filled, Text),
];
const NAMED_SOURCE: &[Field] = &[("name", Filled, Text), ("optional", Given, Flag)];
const ENV_FROM: &[Field] = &[
    ("prefix", Filled, Text),
    ("configMapRef", Given, Struct(NAMED_SOURCE)),
    ("secretRef", Given, Struct(NAMED_SOURCE)),
];
const FIELD_REF: &[Field] = &[("apiVersion", Filled, Text), ("fieldPath", Always, Text)];
const RESOURCE_REF: &[Field] =
    &[("containerName", Filled, Text), ("resource", Always, Text), ("divisor", Filled, Quantity)];
const KEY_REF: &[Field] = &[("name", Filled, Text), ("key", Always, Text), ("optional", Given, Flag)];
const FILE_REF: &[Field] =
    &[("volumeName", Always, Text), ("path", Always, Text), ("key", Always, Text), ("optional", Given, Flag)];
const ENV_SOURCE: &[Field] = &[
    ("fieldRef", Given, Struct(FIELD_REF)),
    ("resourceFieldRef", Given, Struct(RESOURCE_REF)),
    ("configMapKeyRef", Given, Struct(KEY_REF)),
    ("secretKeyRef", Given, Struct(KEY_REF)),
    ("fileKeyRef", Given, Struct(FILE_REF)),
];
const ENV: &[Field] =
    &[("name", Always, Text), ("value", Filled, Text), ("valueFrom", Given, Struct(ENV_SOURCE))];
const CLAIM: &[Field] = &[("name", Always, Text), ("request", Filled, Text)];
const RESOURCES: &[Field] = &[
    ("limits", Filled, Map(&Quantity)),
    ("requests", Filled, Map(&Quantity)),
    ("claims", Filled, List(&Struct(CLAIM))),
];
const RESIZE: &[Field] = &[("resourceName", Always, Text), ("restartPolicy", Always, Text)];
const EXIT_CODES: &[Field] = &[("operator", Filled, Text), ("values", Filled, List(&Int32))];
const RESTART_RULE: &[Field] = &[("action", Filled, Text), ("exitCodes", Given, Struct(EXIT_CODES))];
const MOUNT: &[Field] = &[
    ("name", Always, Text),
    ("readOnly", Filled, Flag),
    ("recursiveReadOnly", Given, Text),
    ("mountPath", Always, Text),
    ("subPath", Filled, Text),
    ("mountPropagation", Given, Text),
    ("subPathExpr", Filled, Text),
];
const DEVICE: &[Field] = &[("name", Always, Text), ("devicePath", Always, Text)];
const EXEC: &[Field] = &[("command", Filled, List(&Text))];
const HEADER: &[Field] = &[("name", Always, Text), ("value", Always, Text)];
const HTTP: &[Field] = &[
    ("path", Filled, Text),
    ("port", Always, Either),
    ("host", Filled, Text),
    ("scheme", Filled, Text),
    ("httpHeaders", Filled, List(&Struct(HEADER))),
];
const TCP: &[Field] = &[("port", Always, Either), ("host", Filled, Text)];
const GRPC: &[Field] = &[("port", Always, Int32), ("service", Nullable, Text)];
const PROBE: &[Field] = &[
    ("exec", Given, Struct(EXEC)),
    ("httpGet", Given, Struct(HTTP)),
    ("tcpSocket", Given, Struct(TCP)),
    ("grpc", Given, Struct(GRPC)),
    ("initialDelaySeconds", Filled, Int32),
    ("timeoutSeconds", Filled, Int32),
    ("periodSeconds", Filled, Int32),
    ("successThreshold", Filled, Int32),
    ("failureThreshold", Filled, Int32),
    ("terminationGracePeriodSeconds", Given, Int64),
];
const SLEEP: &[Field] = &[("seconds", Always, Int64)];
const HANDLER: &[Field] = &[
    ("exec", Given, Struct(EXEC)),
    ("httpGet", Given, Struct(HTTP)),
    ("tcpSocket", Given, Struct(TCP)),
    ("sleep", Given, Struct(SLEEP)),
];
const LIFECYCLE: &[Field] = &[
    ("postStart", Given, Struct(HANDLER)),
    ("preStop", Given, Struct(HANDLER)),
    ("stopSignal", Given, Text),
];
const CAPABILITIES: &[Field] = &[("add", Filled, List(&Text)), ("drop", Filled, List(&Text))];
const SELINUX: &[Field] =
    &[("user", Filled, Text), ("role", Filled, Text), ("type", Filled, Text), ("level", Filled, Text)];
const WINDOWS: &[Field] = &[
    ("gmsaCredentialSpecName", Given, Text),
    ("gmsaCredentialSpec", Given, Text),
    ("runAsUserName", Given, Text),
    ("hostProcess", Given, Flag),
];
const PROFILE: &[Field] = &[("type", Always, Text), ("localhostProfile", Given, Text)];
const SECURITY: &[Field] = &[
    ("capabilities", Given, Struct(CAPABILITIES)),
    ("privileged", Given, Flag),
    ("seLinuxOptions", Given, Struct(SELINUX)),
    ("windowsOptions", Given, Struct(WINDOWS)),
    ("runAsUser", Given, Int64),
    ("runAsGroup", Given, Int64),
    ("runAsNonRoot", Given, Flag),
    ("readOnlyRootFilesystem", Given, Flag),
    ("allowPrivilegeEscalation", Given, Flag),
    ("procMount", Given, Text),
    ("seccompProfile", Given, Struct(PROFILE)),
    ("appArmorProfile", Given, Struct(PROFILE)),
];
const UPGRADE: &[Field] = &[("upgradeType", Filled, Text), ("hotUpgradeEmptyImage", Filled, Text)];
const SHARE: &[Field] = &[("type", Filled, Text)];
const NAME_FROM: &[Field] = &[("fieldRef", Given, Struct(FIELD_REF))];
const TRANSFER: &[Field] = &[
    ("sourceContainerName", Filled, Text),
    ("sourceContainerNameFrom", Given, Struct(NAME_FROM)),
    ("envName", Filled, Text),
    ("envNames", Filled, List(&Text)),
];
const EXPRESSIONS: &[Field] = &[("cpu", Filled, Text), ("memory", Filled, Text)];
const RESOURCES_EXPR: &[Field] =
    &[("limits", Given, Struct(EXPRESSIONS)), ("requests", Given, Struct(EXPRESSIONS))];
const RESOURCES_POLICY: &[Field] = &[
    ("targetContainersMode", Filled, Text),
    ("targetContainersNameRegex", Filled, Text),
    ("resourcesExpr", Filled, Struct(RESOURCES_EXPR)),
];

/// A sidecar.
pub(super) const SIDECAR: &[Field] = &[
    ("name", Always, Text),
    ("image", Filled, Text),
    ("command", Filled, List(&Text)),
    ("args", Filled, List(&Text)),
    ("workingDir", Filled, Text),
    ("ports", Filled, List(&Struct(PORT))),
    ("envFrom", Filled, List(&Struct(ENV_FROM))),
    ("env", Filled, List(&Struct(ENV))),
    ("resources", Filled, Struct(RESOURCES)),
    ("resizePolicy", Filled, List(&Struct(RESIZE))),
    ("restartPolicy", Given, Text),
    ("restartPolicyRules", Filled, List(&Struct(RESTART_RULE))),
    ("volumeMounts", Filled, List(&Struct(MOUNT))),
    ("volumeDevices", Filled, List(&Struct(DEVICE))),
    ("livenessProbe", Given, Struct(PROBE)),
    ("readinessProbe", Given, Struct(PROBE)),
    ("startupProbe", Given, Struct(PROBE)),
    ("lifecycle", Given, Struct(LIFECYCLE)),
    ("terminationMessagePath", Filled, Text),
    ("terminationMessagePolicy", Filled, Text),
    ("imagePullPolicy", Filled, Text),
    ("securityContext", Given, Struct(SECURITY)),
    ("stdin", Filled, Flag),
    ("stdinOnce", Filled, Flag),
    ("tty", Filled, Flag),
    ("podInjectPolicy", Filled, Text),
    ("upgradeStrategy", Filled, Struct(UPGRADE)),
    ("shareVolumePolicy", Filled, Struct(SHARE)),
    ("shareVolumeDevicePolicy", Given, Struct(SHARE)),
    ("transferEnv", Filled, List(&Struct(TRANSFER))),
    ("resourcesPolicy", Given, Struct(RESOURCES_POLICY)),
];

/// JSON of a list of sidecars; `null` where there is none.
pub(crate) fn sidecars(list: Option<&Value>, path: &str) -> Result<String, Fault> {
    let empty = list.is_none_or(Value::is_null);
    let mut out = String::new();
    if empty {
        out.push_str("null");
    } else {
        encode(List(&Struct(SIDECAR)), list.unwrap_or(&Value::Null), path, &mut out)?;
    }
    Ok(out)
}
