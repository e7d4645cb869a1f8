//! `berthctl swap`: gives a sidecar with twins another version, without a moment in which none serves.

use std::process::ExitCode;

use anyhow::Result;
use berth_proto::admin::{TwinSwap, UpdateRequest};
use clap::Args;

use super::cli::Global;
use super::follow::{self, FollowArgs};
use super::{duration, update};

/// Flags of `swap`.
#[derive(Args, Debug)]
pub(crate) struct SwapArgs {
    /// The pod: its name, or namespace/name
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The sidecar; its containers in the pod are NAME-1 and NAME-2
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The version to serve
    #[arg(value_name = "IMAGE")]
    pub image: String,
    /// Image of the twin that does not serve [default: the one that the resting twin has]
    #[arg(long, value_name = "IMAGE")]
    pub empty_image: Option<String>,
    /// How long the new version has to take over; then the pod returns to what it was [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    pub migration: Option<u32>,
    /// Flags that all followed requests have.
    #[command(flatten)]
    pub follow: FollowArgs,
}

/// Runs `swap`.
pub(crate) async fn swap(global: &Global, args: &SwapArgs) -> Result<ExitCode> {
    update::ask(global, request(args)?, &args.follow).await
}

fn request(args: &SwapArgs) -> Result<UpdateRequest> {
    let swap = TwinSwap {
        name: args.name.clone(),
        image: args.image.clone(),
        empty_image: args.empty_image.clone().unwrap_or_default(),
        migration_seconds: args.migration.map(|seconds| follow::short(seconds, "--migration")).transpose()?,
    };
    Ok(UpdateRequest {
        pod: args.pod.clone(),
        swaps: vec![swap],
        failure_policy: args.follow.failure_policy(),
        rollback_on_failure: true,
        active_deadline_seconds: args.follow.deadline(),
        ttl_seconds_after_finished: Some(args.follow.ttl()?),
        ..UpdateRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(more: &[&str]) -> Result<SwapArgs, String> {
        let line = ["berthctl", "swap"].iter().chain(more);
        let cli = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
        let Command::Swap(args) = cli.command else { panic!("{:?}", cli.command) };
        Ok(args)
    }

    #[test]
    fn every_flag_is_asked_for() {
        let flags = [
            "shop/web",
            "mesh",
            "mesh:2",
            "--empty-image",
            "empty:1",
            "--migration",
            "2m",
            "--deadline",
            "5m",
        ];
        let swap = |empty: &str, migration_seconds| TwinSwap {
            name: "mesh".into(),
            image: "mesh:2".into(),
            empty_image: empty.into(),
            migration_seconds,
        };
        let all = request(&parse(&flags).unwrap()).unwrap();
        assert_eq!((all.pod.as_str(), all.swaps), ("shop/web", vec![swap("empty:1", Some(120))]));
        assert_eq!((all.rollback_on_failure, all.active_deadline_seconds), (true, Some(300)));
        let least = request(&parse(&["web", "mesh", "mesh:2"]).unwrap()).unwrap();
        assert_eq!(least.swaps, [swap("", None)]);
        assert_eq!((least.active_deadline_seconds, least.ttl_seconds_after_finished), (None, Some(3600)));
        assert!(parse(&["web", "mesh"]).is_err(), "which image?");
    }
}
