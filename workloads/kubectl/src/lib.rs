//! The plugin of kubectl.
//!
//! - `cli`: the command line;
//! - `make_request`: requests for pods, followed to their end; `request`: how far one is, pure;
//! - `listed`: questions about the whole cluster; `object`, `table`: what they read and print, pure;
//! - `target`, `files`: which objects are meant, in the ways that kubectl lets people say it;
//! - `output`: an object that was written, as `-o` asks for it;
//! - `revision`, `status`, `edit`: decisions, pure: texts and patches from objects;
//! - `failure`: words for what went wrong;
//! - `cluster`: the API server;
//! - `command`: one command, from both.
//!
//! Kinds of Kubernetes itself are kubectl's: for them it is run with the same words.

mod cli;
mod cluster;
mod command;
mod edit;
mod failure;
mod files;
mod listed;
mod make_request;
mod object;
mod output;
mod request;
mod revision;
mod status;
mod table;
mod target;

use std::process::ExitCode;

use clap::{FromArgMatches, error::ErrorKind};

use self::cli::Cli;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    let args: Vec<_> = args.collect();
    let matches =
        cli::command(&program).try_get_matches_from(std::iter::once(program).chain(args.iter().cloned()));
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let error = failure::mended(error);
            let _ = error.print();
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if asked { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(command::run(&cli, &args)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", failure::failure(&error));
            ExitCode::FAILURE
        }
    }
}

/// Help of every command, one after the other.
pub fn help() -> String {
    fn add(command: &mut clap::Command, text: &mut String) {
        let name = command.get_bin_name().unwrap_or_default().to_owned();
        text.push_str(&format!("$ {name} --help\n{}\n", command.render_long_help()));
        command.get_subcommands_mut().for_each(|command| add(command, text));
    }
    let mut command = cli::command(std::ffi::OsStr::new("kubectl-berth"));
    command.build();
    let mut text = String::new();
    add(&mut command, &mut text);
    text
}
