//! `berthd`: parse, then run.

use std::process::ExitCode;

use berthd::{
    config::{Configuration, DEFAULTS, LogFormat, Logging},
    process::{
        self, Start,
        flags::{Cli, Command, ConfigCommand},
        open_files, telemetry,
    },
    succession::{
        systemd,
        takeover::{guardian, outside},
    },
};
use clap::Parser;

/// sysexits(3): the command line or the configuration is wrong. Nothing was bound.
const EX_USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { EX_USAGE } else { 0 };
            // Nothing is left to be done if even this cannot be written.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match cli.command {
        Some(Command::Guardian(flags)) => outside("Guardian", || guardian::guard(&flags)),
        Some(Command::Outside(flags)) => outside("Program outside", || outside::become_program(&flags)),
        Some(Command::Config(ConfigCommand::PrintDefaults)) => {
            print!("{DEFAULTS}");
            ExitCode::SUCCESS
        }
        Some(Command::Config(ConfigCommand::Validate { config })) => {
            match Configuration::read(&config).and_then(Configuration::check) {
                Ok(_) => {
                    println!("{} is valid", config.display());
                    ExitCode::SUCCESS
                }
                Err(error) => usage(&error.into()),
            }
        }
        None => {
            let (config_file, take_over) = (cli.run.config.clone(), cli.run.take_over.clone());
            match cli.run.configuration() {
                Ok(config) => start(config, Start { config_file, take_over, ..Start::default() }),
                Err(error) => usage(&error.into()),
            }
        }
    }
}

/// Stays single-threaded: only such a process can leave its container's mounts.
fn outside(name: &str, run: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    if let Err(error) = telemetry::init(&Logging { format: LogFormat::Text, ..Logging::default() }) {
        return usage(&error.into());
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(name, error = format!("{error:#}"), "Ended");
            ExitCode::FAILURE
        }
    }
}

fn start(config: Configuration, start: Start) -> ExitCode {
    let settled = berth_malloc::settle();
    // After the last exec, which would undo it: no core file has our memory, and no process without
    // CAP_SYS_PTRACE reads it.
    let undumped = nix::sys::prctl::set_dumpable(false);
    if let Err(error) = telemetry::init(&config.logging) {
        return usage(&error.into());
    }
    if let Err(error) = undumped {
        tracing::warn!(%error, "Core files not switched off");
    }
    if let Err(error) = settled {
        tracing::warn!(%error, "Allocator not set up, running with the system's settings");
    }
    open_files::raise();
    // Taken before any thread is started: it reads the environment and owns a bare descriptor.
    let passed = systemd::passed();
    match process::run(config, Start { passed, ..start }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "berthd ended");
            ExitCode::FAILURE
        }
    }
}

fn usage(error: &anyhow::Error) -> ExitCode {
    eprintln!("berthd: {error:#}");
    ExitCode::from(EX_USAGE)
}
