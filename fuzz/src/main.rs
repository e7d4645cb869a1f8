//! All fuzz targets in one program; `BERTH_FUZZ_TARGET` says which one runs. They are beside what they try:
//! `src/fuzzing` of the packages.
#![no_main]

use std::{process::exit, sync::OnceLock};

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn choose() {
    let name = std::env::var("BERTH_FUZZ_TARGET").unwrap_or_default();
    let own: [(&str, fn(&[u8])); 1] = [("watched", berth_manager::fuzzing::watched)];
    let all = || {
        let agent = berthd::fuzzing::TARGETS.into_iter().chain(berth_shim::fuzzing::TARGETS);
        agent.chain(berthctl::fuzzing::TARGETS).chain(own)
    };
    let Some((_, target)) = all().find(|(own, _)| *own == name) else {
        let names: Vec<&str> = all().map(|(name, _)| name).collect();
        eprintln!("BERTH_FUZZ_TARGET={name:?} is none of {}", names.join(" "));
        exit(2);
    };
    TARGET.get_or_init(|| target);
    if name == "store" {
        // The database panics where a file is damaged, and the store catches it: only what it lets through is
        // a finding, and that is found where the input is tried.
        std::panic::set_hook(Box::new(|panic| {
            if !panic.location().is_some_and(|at| at.file().contains("/redb-")) {
                eprintln!("{panic}");
            }
        }));
    }
}

fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        target(data);
    }
});
