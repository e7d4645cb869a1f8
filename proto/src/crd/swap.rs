//! Swaps of twins: a sidecar with hot upgrades has two containers, `<name>-1` and `<name>-2`, of which one
//! serves and the other one runs an empty image.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The seconds that a new version has to take over where nobody says how many.
pub const MIGRATION_SECONDS: i32 = 60;

/// A version that is to serve. It is started in the twin that runs the empty image; when it has taken over,
/// the other one becomes empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TwinSwap {
    /// Name of the sidecar; its containers in the pod are `<name>-1` and `<name>-2`.
    #[schemars(length(min = 1, max = 61))]
    pub name: String,
    /// Image of the version to serve.
    #[schemars(length(min = 1, max = 4096))]
    pub image: String,
    /// Image of the twin that does not serve.
    #[schemars(length(min = 1, max = 4096))]
    pub empty_image: String,
    /// Version that the twins are told by their env; at least one more than any the pod has.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(extend("default" = 0))]
    pub version: i64,
    /// Seconds that the new version has to take over, its postStart hook and its readiness included; 60 when
    /// left out. After that the pod returns to what it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub migration_seconds: Option<i32>,
}

/// How far the swap of one sidecar is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TwinSwapState {
    /// Name of the sidecar.
    pub name: String,
    /// Container that the pod says is the working one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working: Option<String>,
    /// Step that it is at.
    pub step: TwinSwapStep,
    /// When that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Steps of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum TwinSwapStep {
    /// The version that is wanted has not been put into the pod.
    Pending,
    /// It is started beside the one that serves, and has to take over.
    Migrating,
    /// It has taken over: the other twin becomes empty.
    Emptying,
    /// It has not taken over, or is not wanted any more: it becomes empty, and the other twin works on.
    Returning,
    /// One twin runs the version that is wanted, the other one the empty image.
    Done,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
