//! What reads outside input, for the fuzz targets of `fuzz/`: each takes any bytes, and panics where it should not be so.
//!
//! The targets are beside what they try. Here their seeds are tried as well, whole, cut off and with single bytes changed, by
//! the ordinary tests.

pub use crate::{
    admin::fuzz::admin,
    cluster::fuzz::recreate,
    config::fuzz::{config, values},
    desired::fuzz::files,
    exec::fuzz::events,
    http_get::fuzz::redirect,
    images::fuzz::{credentials, reference},
    in_place_update::fuzz::update,
    node_image::fuzz::node_image,
    node_pod_probe::fuzz::node_pod_probe,
    pod_view::fuzz::pods,
    probe::fuzz::message,
    runtime::fuzz::made,
    store::fuzz::store,
};

/// A target.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 16] = [
    ("admin", admin),
    ("config", config),
    ("credentials", credentials),
    ("events", events),
    ("files", files),
    ("made", made),
    ("message", message),
    ("node_image", node_image),
    ("node_pod_probe", node_pod_probe),
    ("pods", pods),
    ("recreate", recreate),
    ("redirect", redirect),
    ("reference", reference),
    ("store", store),
    ("update", update),
    ("values", values),
];

#[cfg(test)]
#[path = "../../fuzz/src/near.rs"]
mod near;

#[cfg(test)]
mod tests {
    use super::{TARGETS, near::try_seeds};

    #[test]
    fn seeds_and_what_is_near_them() {
        for (name, target) in TARGETS {
            // A store is opened in milliseconds, not microseconds.
            try_seeds(name, target, if name == "store" { 1 } else { 60 });
        }
    }
}
