//! Readers of bytes of the kubelet or the runtime, for the fuzz targets of `fuzz/`: each takes any bytes, and
//! panics where it should not be so. The ordinary tests try the seeds, and what is near them.

mod append;
mod authority;
mod calls;
mod edit;
mod env;
mod frames;
mod handover;
mod wire_edit;

pub use self::{
    append::append, authority::authority, calls::calls, edit::edit, env::env, frames::frames,
    handover::handover, wire_edit::wire_edit,
};
pub use crate::remote::fuzz::{line_table, line_to_agent, line_to_shim};

/// A target.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 11] = [
    ("append", append),
    ("authority", authority),
    ("calls", calls),
    ("edit", edit),
    ("env", env),
    ("frames", frames),
    ("handover", handover),
    ("line_table", line_table),
    ("line_to_agent", line_to_agent),
    ("line_to_shim", line_to_shim),
    ("wire_edit", wire_edit),
];

/// Some bytes, and the pieces they come in: the first byte says how many there are beside the last one, as
/// many bytes after it how long each is.
fn pieces(data: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (count, rest) = data.split_first().unwrap_or((&0, &[]));
    let (cuts, bytes) = rest.split_at(usize::from(*count).min(rest.len()));
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for cut in cuts {
        let (piece, tail) = rest.split_at(usize::from(*cut).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces.push(rest);
    (pieces, bytes)
}

#[cfg(test)]
#[path = "../../../fuzz/src/near.rs"]
mod near;

#[cfg(test)]
mod tests {
    use super::{TARGETS, near::try_seeds};

    #[test]
    fn seeds_and_what_is_near_them() {
        for (name, target) in TARGETS {
            try_seeds(name, target, usize::MAX);
        }
    }
}
