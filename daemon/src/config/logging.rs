//! Logs: which lines are written, and how they look.

use serde::{Deserialize, Serialize};

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Logging {
    /// Format of log lines.
    pub format: LogFormat,
    /// A level (`error`, `warn`, `info`, `debug`, `trace`) or a filter such as `berthd=debug,info`.
    pub level: String,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// `journald` where systemd has connected stderr to the journal, else `text`.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// Native journal fields.
    Journald,
}

impl Default for Logging {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info".to_owned() }
    }
}
