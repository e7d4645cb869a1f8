//! `berthd`: parse, then run.

use std::process::ExitCode;

use berthd::{
    allocator,
    config::{Cli, Command, ConfigCommand, Configuration, DEFAULTS},
    run, systemd, telemetry,
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
        None => match cli.run.configuration() {
            Ok(config) => start(config),
            Err(error) => usage(&error.into()),
        },
    }
}

fn start(config: Configuration) -> ExitCode {
    let settled = allocator::settle();
    if let Err(error) = telemetry::init(&config.logging) {
        return usage(&error.into());
    }
    if let Err(error) = settled {
        tracing::warn!(%error, "Allocator not set up, running with the system's settings");
    }
    // Taken before any thread is started: it reads the environment and owns a bare descriptor.
    let passed = systemd::passed_socket();
    match run::run(config, passed) {
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
