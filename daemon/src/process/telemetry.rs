//! Where logs go and how they look.

use std::{io::IsTerminal, os::fd::AsFd};

use nix::sys::stat::fstat;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry,
    filter::{ParseError, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::config::{LogFormat, Logging};

/// The log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is none.
    #[error(
        "logging.level {level:?}: a level (error, warn, info, debug, trace) or a filter such as berthd=debug,info"
    )]
    Level {
        /// As configured.
        level: String,
        /// Cause.
        source: ParseError,
    },
    /// The journal does not take it.
    #[error("logging.format journald: the journal's socket cannot be used")]
    Journald(#[source] std::io::Error),
}

/// Sets up the log for the whole process; once.
pub fn init(config: &Logging) -> Result<(), TelemetryError> {
    let filter: Targets = config
        .level
        .parse()
        .map_err(|source| TelemetryError::Level { level: config.level.clone(), source })?;
    let filter = without_secrets(filter);
    let format = match config.format {
        LogFormat::Auto if stderr_is_the_journal() => LogFormat::Journald,
        LogFormat::Auto => LogFormat::Text,
        format => format,
    };
    let stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Json => Box::new(stderr.json().flatten_event(true)),
        LogFormat::Journald => Box::new(tracing_journald::layer().map_err(TelemetryError::Journald)?),
        LogFormat::Text | LogFormat::Auto => Box::new(stderr.with_ansi(colour())),
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    Ok(())
}

/// A filter that lets nothing of a pod's env through, whatever level it asks for: the API client logs the
/// whole of an answer that it cannot read. That one could not be read is said by who asked, once for each
/// outage and not once for each attempt.
pub fn without_secrets(filter: Targets) -> Targets {
    filter
        .with_target("kube_client::client", LevelFilter::OFF)
        .with_target("kube_client::client::builder", LevelFilter::OFF)
        .with_target("kube_client::client::tls", LevelFilter::WARN)
        .with_target("kube_runtime::watcher", LevelFilter::OFF)
}

fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// `JOURNAL_STREAM` is inherited by everything below a unit; only if device and inode are those of our stderr
/// does the journal really read it (systemd.exec(5)).
fn stderr_is_the_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stat) = fstat(std::io::stderr().as_fd()) else { return false };
    stream == format!("{}:{}", stat.st_dev, stat.st_ino)
}
