//! Where logs go and how they look: to stderr, as text or as JSON lines.

use std::io::IsTerminal;

pub use berth_proto::causes::chain;
use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Layer, Registry, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sets up the log for the whole process; once.
pub fn init(filter: Targets, format: LogFormat) {
    // Said by us, once for each outage and not once for each attempt.
    let filter = filter
        // It also logs the whole of an answer that it cannot read, be it a Secret.
        .with_target("kube_client::client", LevelFilter::OFF)
        .with_target("kube_client::client::builder", LevelFilter::OFF)
        .with_target("kube_client::client::tls", LevelFilter::WARN)
        .with_target("kube_runtime::watcher", LevelFilter::OFF);
    let stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Json => Box::new(stderr.json().flatten_event(true)),
        LogFormat::Text => Box::new(stderr.with_ansi(std::io::stderr().is_terminal())),
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
}
