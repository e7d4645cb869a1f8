//! Settings of berthd that an installation is given as env, as the DaemonSet of `deploy/host` has them: the
//! service has them as env, too.
//!
//! Only what berthd knows by that name is taken. A pod has variables of each Service of its namespace, which
//! may begin with the same letters.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context, Result, ensure};
use berthd::process::flags::RunFlags;
use clap::{Args as _, Command};

/// The longest value that is handed on.
const LONGEST: usize = 1024;

/// Variables that say where berthd and what is around it are. The installation and its unit decide that.
const PLACES: [&str; 9] = [
    "BERTH_CONFIG",
    "BERTH_SOCKET",
    "BERTH_SHIM_SOCKET",
    "BERTH_AGENT_NAMESPACE",
    "BERTH_RUNTIME_ENDPOINT",
    "BERTH_ADMIN_SOCKET",
    "BERTH_STATE_DIR",
    "BERTH_DESIRED_DIR",
    "BERTH_TAKE_OVER",
];

/// Values of settings, by the name of the variable.
pub(crate) type Settings = BTreeMap<String, String>;

/// Picks the variables that are settings of berthd.
pub(crate) fn picked(
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let known = known();
    env.into_iter().filter(move |(name, _)| name.to_str().is_some_and(|name| known.contains_key(name)))
}

/// Reads the settings among these variables, each checked as berthd does. An empty one is none.
pub(crate) fn settings(env: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Settings> {
    let known = known();
    let mut settings = Settings::new();
    for (name, value) in env {
        let Some((name, flag)) = name.to_str().and_then(|name| known.get_key_value(name)) else { continue };
        if value.is_empty() {
            continue;
        }
        let value = value.to_str().with_context(|| format!("{name}: its value is not UTF-8"))?;
        ensure!(value.len() <= LONGEST, "{name}: its value is longer than {LONGEST} bytes");
        ensure!(!value.contains(char::is_control), "{name}: its value has a control character: {value:?}");
        check(flag, value).with_context(|| format!("{name}={value}"))?;
        settings.insert(name.clone(), value.to_owned());
    }
    Ok(settings)
}

/// The flags of berthd.
fn flags() -> Command {
    RunFlags::augment_args(Command::new("berthd"))
}

/// The flags of berthd that are settings, by the name of their variable.
fn known() -> BTreeMap<String, String> {
    let flags = flags();
    let named = flags.get_arguments().filter_map(|arg| Some((arg.get_env()?.to_str()?, arg.get_long()?)));
    let settings = named.filter(|(name, _)| !PLACES.contains(name));
    settings.map(|(name, flag)| (name.to_owned(), flag.to_owned())).collect()
}

/// Tells whether berthd takes this value; this process's own env has no part in it.
fn check(flag: &str, value: &str) -> Result<()> {
    let flags = flags().mut_args(|arg| arg.env(None::<&'static str>));
    let parsed = flags.try_get_matches_from(["berthd".to_owned(), format!("--{flag}={value}")]);
    parsed.map(drop).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        anyhow::anyhow!("{}", first.strip_prefix("error: ").unwrap_or(first))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn read(name: &str, value: &str) -> Result<Vec<(String, String)>, String> {
        let read = settings([(name.into(), value.into())]);
        read.map(|settings| settings.into_iter().collect()).map_err(|error| format!("{error:#}"))
    }

    /// A flag that is new is handed on, or is a place.
    #[test]
    fn these_are_handed_on() {
        let names: Vec<String> = known().into_keys().collect();
        let expected = [
            "BERTH_HTTP_ADDRESS",
            "BERTH_IMAGES_JOBS_IN_SPEC",
            "BERTH_IMAGES_RESERVE",
            "BERTH_LAUNCH_ORDER_DISTINCT_SECONDS",
            "BERTH_LOG_FORMAT",
            "BERTH_LOG_LEVEL",
            "BERTH_METRICS_ADDRESS",
            "BERTH_NODE_NAME",
            "BERTH_UPDATES_CONTAINERS_META",
        ];
        assert_eq!(names, expected);
        let all = flags();
        let all: Vec<_> = all.get_arguments().filter_map(clap::Arg::get_env).collect();
        assert!(PLACES.iter().all(|place| all.contains(&std::ffi::OsStr::new(place))), "{all:?}");
    }

    #[test]
    fn what_is_handed_on_is_checked() {
        for (name, value, expected) in [
            ("BERTH_IMAGES_RESERVE", "5%", Ok(true)),
            ("BERTH_UPDATES_CONTAINERS_META", "all", Ok(true)),
            ("BERTH_LAUNCH_ORDER_DISTINCT_SECONDS", "true", Ok(true)),
            ("BERTH_LOG_LEVEL", r#"info,"a b"=\debug"#, Ok(true)),
            ("BERTH_LOG_LEVEL", "", Ok(false)),
            // Of Services of the namespace, of other programs, and of where things are.
            ("BERTH_MANAGER_SERVICE_HOST", "10.0.0.1", Ok(false)),
            ("PATH", "/bin", Ok(false)),
            ("BERTH_ADMIN_SOCKET", "/x.sock", Ok(false)),
            ("BERTH_CONFIG", "/x", Ok(false)),
            ("BERTH_TAKE_OVER", "/x", Ok(false)),
            ("BERTH_IMAGES_RESERVE", "half", Err("BERTH_IMAGES_RESERVE=half: invalid value 'half'")),
            ("BERTH_LAUNCH_ORDER_DISTINCT_SECONDS", "1", Err("invalid value '1'")),
            (
                "BERTH_LOG_LEVEL",
                "info\n[Service]\nExecStart=/x",
                Err("BERTH_LOG_LEVEL: its value has a control"),
            ),
            ("BERTH_LOG_LEVEL", &"x".repeat(LONGEST + 1), Err("longer than 1024 bytes")),
        ] {
            let found = read(name, value);
            match expected {
                Ok(true) => assert_eq!(found, Ok(vec![(name.to_owned(), value.to_owned())])),
                Ok(false) => assert_eq!(found, Ok(Vec::new()), "{name}"),
                Err(words) => {
                    let error = found.unwrap_err();
                    assert!(error.contains(words), "{error}");
                }
            }
        }
        let latin = OsString::from_vec(vec![0xe4]);
        assert!(settings([("BERTH_LOG_LEVEL".into(), latin.clone())]).is_err());
        assert!(settings([("OTHER".into(), latin)]).unwrap().is_empty());
    }
}
