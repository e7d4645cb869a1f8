//! Readers of outside input, for the fuzz targets of `fuzz/`: each takes any bytes, and panics where it
//! should not be so.
//!
//! The targets are beside what they try. Here their seeds are tried as well, whole, cut off and with single
//! bytes changed, by the ordinary tests.

pub use crate::{
    admin::fuzz::admin,
    agent::store::fuzz::store,
    base::http_get::fuzz::redirect,
    config::fuzz::{config, values},
    cri::fuzz::made,
    exec::fuzz::events,
    images::{
        fuzz::{credentials, reference},
        node_image::fuzz::node_image,
    },
    pods::fuzz::pods,
    probes::{node_pod_probe::fuzz::node_pod_probe, prober::fuzz::message},
    recreate::{api::fuzz::recreate, files::fuzz::files},
    update::fuzz::{update, updates},
};

/// A target.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 17] = [
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
    ("updates", updates),
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
