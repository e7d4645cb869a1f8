//! Figures of this process: read from `/proc` when somebody asks for them, and at no other time.

use std::{fs, sync::atomic::AtomicU64};

use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::{SysconfVar, sysconf},
};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

type Version = [(&'static str, &'static str); 1];

/// The figures of the process. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct OwnMetrics {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    started: Gauge<f64, AtomicU64>,
    open_files: Gauge,
    most_files: Gauge,
    threads: Gauge,
}

/// Figures of a process as the kernel says them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    /// Seconds in user and kernel mode.
    cpu: f64,
    threads: i64,
    /// Seconds from the start of the machine.
    started: f64,
    /// Bytes.
    resident: i64,
}

impl OwnMetrics {
    /// Registers the metrics under `berth_agent_…`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("berth_agent");
        let build = Family::<Version, Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "1, with the version of berthd", build);
        let metrics = Self {
            cpu: Counter::default(),
            resident: Gauge::default(),
            started: Gauge::default(),
            open_files: Gauge::default(),
            most_files: Gauge::default(),
            threads: Gauge::default(),
        };
        registry.register_with_unit(
            "process_cpu",
            "Time that the process has had the CPU",
            Unit::Seconds,
            metrics.cpu.clone(),
        );
        registry.register_with_unit(
            "process_resident_memory",
            "Memory of the process that is in RAM",
            Unit::Bytes,
            metrics.resident.clone(),
        );
        registry.register_with_unit(
            "process_start_time",
            "When the process began, since the epoch of Unix",
            Unit::Seconds,
            metrics.started.clone(),
        );
        registry.register("process_open_fds", "Open file descriptors", metrics.open_files.clone());
        registry.register("process_max_fds", "File descriptors that may be open", metrics.most_files.clone());
        registry.register("process_threads", "Threads of the process", metrics.threads.clone());
        metrics
    }

    /// Reads all of it. What cannot be read stays as it is.
    pub(crate) fn refresh(&self) {
        if let Some(figures) = read() {
            // A counter only grows.
            self.cpu.inc_by((figures.cpu - self.cpu.get()).max(0.0));
            self.resident.set(figures.resident);
            self.threads.set(figures.threads);
            if let Some(booted) = fs::read_to_string("/proc/stat").ok().as_deref().and_then(booted) {
                self.started.set(booted + figures.started);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // Without the one that reads the folder.
            self.open_files.set(i64::try_from(open.count()).unwrap_or(i64::MAX).saturating_sub(1));
        }
        if let Ok((most, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
            self.most_files.set(i64::try_from(most).unwrap_or(i64::MAX));
        }
    }
}

fn read() -> Option<Figures> {
    let of = |name| sysconf(name).ok().flatten();
    let (tick, page) = (of(SysconfVar::CLK_TCK)?, of(SysconfVar::PAGE_SIZE)?);
    figures(&fs::read_to_string("/proc/self/stat").ok()?, tick, page)
}

/// Reads proc_pid_stat(5). The name of the process may have spaces and parentheses in it.
fn figures(stat: &str, ticks_a_second: i64, page: i64) -> Option<Figures> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    // The first of them is the third of the manual.
    let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse::<i64>().ok();
    let seconds = |ticks: i64| ticks as f64 / ticks_a_second.max(1) as f64;
    Some(Figures {
        cpu: seconds(field(14)?.saturating_add(field(15)?)),
        threads: field(20)?,
        started: seconds(field(22)?),
        resident: field(24)?.saturating_mul(page),
    })
}

/// Returns when the machine began, by proc_stat(5).
fn booted(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let stat =
            "42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 3 0 150 50 0 0 20 0 7 0 12345 9000000 1234 1844";
        let expected = Figures { cpu: 2.0, threads: 7, started: 123.45, resident: 1234 * 4096 };
        assert_eq!(figures(stat, 100, 4096), Some(expected));
        for broken in [
            "",
            "42 (berthd",
            "42 (berthd) S 1 42",
            "42 (berthd) S x x x x x x x x x x x x x x x x x x x x x",
        ] {
            assert_eq!(figures(broken, 100, 4096), None, "{broken}");
        }
        assert_eq!(booted("cpu 1 2\nbtime 1700000000\nprocesses 9\n"), Some(1_700_000_000.0));
        assert_eq!(booted("cpu 1 2\n"), None);
    }

    #[test]
    fn this_process_has_figures() {
        let own = OwnMetrics::register(&mut Registry::default());
        own.refresh();
        assert!(own.resident.get() > 0 && own.threads.get() > 0 && own.started.get() > 1e9, "{own:?}");
        assert!((0..=own.most_files.get()).contains(&own.open_files.get()), "{own:?}");
        own.refresh();
    }
}
