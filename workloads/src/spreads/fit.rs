//! Fit of pods that were there before into subsets.
//!
//! Whether a patch changes nothing of a pod is known when it is merged into it, and both are their authors'.
//! A merge looks for each item of a list among all that are there: lists that are long on both sides would
//! take minutes, in the one thread of all controllers.

use berth_spread::{Fit, Room, Subset, is_merged};
use berth_workloads_policy::{
    place::{fits as holds, prefers},
    plan::NodeView,
};
use serde_json::Value;

/// The most comparisons of items for one pod, which are some tenths of a second; some thousands are usual.
const MOST_COMPARED: usize = 1 << 21;

/// Finds how a pod on its node fits into each of the subsets. Between two of them others have their turn.
///
/// # Errors
/// The message says why nobody can tell.
pub(super) async fn fits(
    pod: &Value,
    subsets: &[Subset],
    node: &NodeView,
    room: &Room,
) -> Result<Vec<Fit>, String> {
    let own =
        pod.pointer("/spec/tolerations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut all, mut left) = (Vec::new(), MOST_COMPARED);
    for (at, subset) in subsets.iter().enumerate() {
        let mut fit = Fit { holds: subset_holds(own, subset, node), room: room.has(at), ..Fit::default() };
        // Nobody is put into another one.
        if fit.holds {
            fit.weight = weight(subset, node);
            fit.merged = match &subset.patch {
                Some(patch) => {
                    tokio::task::yield_now().await;
                    is_merged(pod, patch, &mut left)
                        .map_err(|why| format!("subset {}: {why}", subset.name))?
                }
                None => true,
            };
        }
        all.push(fit);
    }
    Ok(all)
}

/// Tells whether the node is one of the subset for a pod with tolerations of its own.
fn subset_holds(own: &[Value], subset: &Subset, node: &NodeView) -> bool {
    let tolerations: Vec<Value> = own.iter().chain(&subset.tolerations).cloned().collect();
    let terms: Vec<Value> = subset.required.iter().cloned().collect();
    holds(&terms, &tolerations, node)
}

fn weight(subset: &Subset, node: &NodeView) -> i64 {
    let weight = |one: &Value| match one.get("preference") {
        Some(term) if prefers(term, node) => one.get("weight").and_then(Value::as_i64).unwrap_or(0),
        _ => 0,
    };
    subset.preferred.iter().map(weight).fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn node() -> NodeView {
        let labels = [("zone".to_owned(), "a".to_owned())].into();
        let taint = json!({"key": "k", "effect": "NoSchedule"});
        NodeView { name: "n".to_owned(), labels, taints: vec![taint] }
    }

    fn term(zone: &str) -> Value {
        json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]})
    }

    fn subset(zone: &str, patch: &Value) -> Subset {
        Subset {
            name: zone.to_owned(),
            limit: None,
            required: Some(term(zone)),
            preferred: vec![
                json!({"weight": 7, "preference": term("a")}),
                json!({"weight": 9, "preference": term("b")}),
            ],
            tolerations: vec![json!({"key": "k", "operator": "Exists"})],
            patch: patch.as_object().cloned(),
        }
    }

    #[tokio::test]
    async fn a_pod_fits_where_its_node_is() {
        let pod = json!({"metadata": {"labels": {"x": "1"}}, "spec": {}});
        let label = |value: &str| json!({"metadata": {"labels": {"x": value}}});
        let mut bare = subset("a", &Value::Null);
        bare.tolerations.clear();
        let subsets = [subset("a", &label("1")), subset("a", &label("2")), subset("b", &label("1")), bare];
        let found = fits(&pod, &subsets, &node(), &Room::default()).await.unwrap();
        let here = Fit { holds: true, weight: 7, ..Fit::default() };
        // The last one's taint is not borne.
        let wanted = [Fit { merged: true, ..here }, here, Fit::default(), Fit::default()];
        assert_eq!(found, wanted);
    }

    /// Names of so many things.
    fn named(count: usize) -> Value {
        (0..count).map(|number| json!({ "name": number.to_string() })).collect()
    }

    fn variables(count: usize) -> Value {
        json!({ "spec": { "containers": [{ "name": "main", "env": named(count) }] } })
    }

    /// Rows: variables of the pod, those of a patch, and in how many subsets that is.
    #[rstest]
    #[case::usual(50, 20, 64, true)]
    #[case::large(2_000, 100, 8, true)]
    #[case::long_on_both_sides(100_000, 4_500, 1, false)]
    #[case::a_long_patch(1, 4_500, 1, false)]
    #[case::a_long_pod(100_000, 1, 8, true)]
    #[case::all_together(10_000, 100, 64, false)]
    #[tokio::test]
    async fn what_would_take_minutes_is_not_merged(
        #[case] pod: usize,
        #[case] patch: usize,
        #[case] subsets: usize,
        #[case] told: bool,
    ) {
        let subsets = vec![subset("a", &variables(patch)); subsets];
        let found = fits(&variables(pod), &subsets, &node(), &Room::default()).await;
        assert_eq!(found.is_ok(), told, "{found:?}");
        // Of another zone, they cost nothing.
        let others = vec![subset("b", &variables(patch)); 64];
        assert!(fits(&variables(pod), &others, &node(), &Room::default()).await.is_ok());
    }
}
