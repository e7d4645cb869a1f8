//! The readiness gate of a pod for which no update goes on.

/// Whether the agent opens it. `closed_here`: the condition is there and not True, and whether the agent wrote it so; `None`:
/// nobody has written it yet. One that somebody else closed is theirs to open. `as_it_should_be`: its containers are Ready, and
/// the kubelet has nothing to change any more.
pub fn may_open(closed_here: Option<bool>, as_it_should_be: bool) -> bool {
    match closed_here {
        None => true,
        Some(closed_here) => closed_here && as_it_should_be,
    }
}

#[cfg(test)]
mod tests {
    use super::may_open;

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
