//! The readiness gate of a pod for which no update goes on.

/// Tells whether the agent opens the gate. `closed_here`: whether it was the agent that wrote the condition
/// as not True; `None`: nobody has written the condition yet. A gate that somebody else closed is theirs to
/// open. `as_it_should_be`: its containers are Ready, and the kubelet has nothing to change any more.
pub fn may_open(closed_here: Option<bool>, as_it_should_be: bool) -> bool {
    match closed_here {
        None => true,
        Some(closed_here) => closed_here && as_it_should_be,
    }
}

/// Tells whether the kubelet's pod worker is at this `generation`, by the `status.observedGeneration`: what
/// it does from now on, it does for that. While a container is being stopped for an older one, nothing else
/// shows it. Kubelets before 1.34 do not tell.
pub fn is_worked_on(generation: Option<i64>, observed: Option<i64>) -> bool {
    observed.is_none_or(|observed| generation.is_none_or(|generation| generation <= observed))
}

#[cfg(test)]
mod tests {
    use super::{is_worked_on, may_open};

    #[test]
    fn a_kubelet_that_does_not_tell_is_believed() {
        for (generation, observed, expect) in [
            (Some(2), Some(1), false),
            (Some(2), Some(2), true),
            (Some(2), Some(3), true),
            (Some(2), None, true),
            (None, Some(1), true),
        ] {
            assert_eq!(is_worked_on(generation, observed), expect, "{generation:?} {observed:?}");
        }
    }

    #[test]
    fn whose_gate_is_opened() {
        for (closed_here, as_it_should_be, expect) in [
            (None, false, true),
            (None, true, true),
            (Some(true), true, true),
            (Some(true), false, false),
            (Some(false), true, false),
        ] {
            assert_eq!(may_open(closed_here, as_it_should_be), expect, "{closed_here:?} {as_it_should_be}");
        }
    }
}
