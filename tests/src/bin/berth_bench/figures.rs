//! Figures of the benchmark page: every bench run one after the other, each in a process of its own, and its
//! table put into the page in place of the one before.
//!
//! The page has a part for each bench between two marks. A bench that fails keeps its last table, and the
//! others go on; the end says which failed.
//!
//! ```text
//!   <!-- bench update -->
//!   ...table...
//!   <!-- end -->
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use jiff::Zoned;
use serde::Deserialize;
use tokio::process::Command;

use crate::report::{Bench, number};

const END: &str = "<!-- end -->";

/// Options of `figures`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Figures {
    /// Only this bench; may be given more than once.
    #[arg(long = "bench")]
    names: Vec<String>,
    /// Measurements of each case and of its baseline; as many as each bench makes by itself if not given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Without this bench, or this case of one (`soak`, `sidecarset/rollout-30000`); may be given more than
    /// once.
    #[arg(long, value_name = "BENCH[/CASE]")]
    without: Vec<String>,
    /// Page that gets the tables.
    #[arg(long, default_value = "docs/figures.md")]
    page: PathBuf,
}

/// A row as a bench prints it.
#[derive(Clone, Debug, Deserialize)]
struct Figure {
    case: String,
    metric: String,
    unit: String,
    value: f64,
    baseline: Option<f64>,
    ratio: Option<f64>,
    runs: usize,
}

/// Runs the benches that are wanted, all of them if none is named.
pub(crate) async fn run(options: &Figures, benches: &[Bench]) -> Result<()> {
    if let Some(name) = options.names.iter().find(|name| benches.iter().all(|bench| bench.name != **name)) {
        bail!("there is no bench {name}: see `berth-bench list`");
    }
    if let Some(name) = options.without.iter().find(|name| benches.iter().all(|bench| !has(bench, name))) {
        bail!("there is no bench and no case {name}: see `berth-bench list`");
    }
    let wanted = |bench: &&Bench| {
        let is_named = options.names.is_empty() || options.names.iter().any(|name| name == bench.name);
        is_named && options.without.iter().all(|name| name != bench.name)
    };
    let mut failed = Vec::new();
    for bench in benches.iter().filter(wanted) {
        eprintln!("{}: {}", bench.name, bench.about);
        match part(bench, options).await.and_then(|part| put(&options.page, bench.name, &part)) {
            Ok(()) => eprintln!("{}: written to {}", bench.name, options.page.display()),
            Err(error) => {
                eprintln!("{}: {error:#}", bench.name);
                failed.push(bench.name);
            }
        }
    }
    ensure!(failed.is_empty(), "these benches failed, and keep the tables they had: {}", failed.join(", "));
    Ok(())
}

/// Says whether a name of `--without` is this bench or a case of it.
fn has(bench: &Bench, name: &str) -> bool {
    match name.split_once('/') {
        None => bench.name == name,
        Some((of, case)) => bench.name == of && bench.cases.iter().any(|(one, _)| *one == case),
    }
}

/// The cases of a bench that are run, and those that are not.
fn cases<'a>(bench: &'a Bench, without: &[String]) -> (Vec<&'a str>, Vec<&'a str>) {
    let is_run = |case: &&str| without.iter().all(|name| *name != format!("{}/{case}", bench.name));
    bench.cases.iter().map(|(case, _)| *case).partition(is_run)
}

/// Runs a bench, and makes the part of the page that tells its figures.
async fn part(bench: &Bench, options: &Figures) -> Result<String> {
    let own = std::env::current_exe().context("path of berth-bench")?;
    let load = fs::read_to_string("/proc/loadavg").context("load of the machine")?;
    let load = load.split(' ').next().unwrap_or_default();
    let mut command = Command::new(&own);
    // A bench says there how far it is; `output` would keep that until the end.
    command.args([bench.name, "--json"]).stdout(Stdio::piped()).stderr(Stdio::inherit());
    if let Some(runs) = options.runs {
        command.args(["--runs", &runs.to_string()]);
    }
    let (run, left_out) = cases(bench, &options.without);
    ensure!(!run.is_empty(), "all of its cases are left out");
    if !left_out.is_empty() {
        for case in run {
            command.args(["--case", case]);
        }
    }
    let output = command.spawn()?.wait_with_output().await?;
    ensure!(output.status.success(), "{}", output.status);
    let lines = String::from_utf8(output.stdout)?;
    let figures: Vec<Figure> =
        lines.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("rows of the bench")?;
    let profile = own.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let left_out = match &*left_out {
        [] => String::new(),
        cases => format!(" Not run: `{}`.", cases.join("`, `")),
    };
    let heading = format!(
        "`berth-bench {}`: {}. {}, {} build, load of the machine before it {load}.{left_out}",
        bench.name,
        bench.about,
        Zoned::now().date(),
        profile.unwrap_or_default(),
    );
    Ok(format!("{heading}\n\n{}", table(&figures)))
}

/// Rows as a table of Markdown.
fn table(figures: &[Figure]) -> String {
    let mut text =
        String::from("| Case | Metric | Berth | Baseline | Ratio | Runs |\n|---|---|---:|---:|---:|---:|\n");
    let mut last = None;
    for figure in figures {
        let case = if last == Some(&figure.case) { "" } else { figure.case.as_str() };
        let Figure { metric, unit, runs, .. } = figure;
        let [value, baseline, ratio] = [Some(figure.value), figure.baseline, figure.ratio].map(number);
        // Into memory: it cannot fail.
        let _ = writeln!(text, "| {case} | {metric} ({unit}) | {value} | {baseline} | {ratio} | {runs} |");
        last = Some(&figure.case);
    }
    text
}

/// Puts the part of a bench into the page.
fn put(page: &Path, name: &str, part: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let text = replaced(&text, name, part).with_context(|| {
        format!("{} has no part `{}` that ends with `{END}`", page.display(), begin(name))
    })?;
    fs::write(page, text).with_context(|| page.display().to_string())
}

fn begin(name: &str) -> String {
    format!("<!-- bench {name} -->")
}

/// The page with another part for this bench; `None` where it has no marks for it.
fn replaced(page: &str, name: &str, part: &str) -> Option<String> {
    let begin = begin(name);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n\n{part}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_the_place_of_the_one_before() {
        let page =
            "# Figures\n\n<!-- bench a -->\nold\n<!-- end -->\n\n<!-- bench b -->\n<!-- end -->\nlast\n";
        let written = replaced(page, "a", "new\n").unwrap();
        assert_eq!(
            written,
            "# Figures\n\n<!-- bench a -->\n\nnew\n\n<!-- end -->\n\n<!-- bench b -->\n<!-- end -->\nlast\n"
        );
        assert_eq!(replaced(&written, "a", "new\n").unwrap(), written);
        assert_eq!(replaced(page, "c", "new\n"), None);
    }

    #[test]
    fn the_page_has_a_part_for_each_bench() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures.md");
        let page = fs::read_to_string(page).unwrap();
        for bench in crate::BENCHES {
            assert!(replaced(&page, bench.name, "").is_some(), "{} is missing", bench.name);
        }
    }

    #[test]
    fn cases_can_be_left_out() {
        const BENCH: Bench = Bench { name: "b", about: "", cases: &[("short", &[]), ("long", &[])] };
        let without = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            cases(&BENCH, &names)
        };
        assert_eq!(without(&[]), (vec!["short", "long"], vec![]));
        assert_eq!(without(&["b/long", "c/short"]), (vec!["short"], vec!["long"]));
        let known = ["b", "b/long", "b/longer", "c", "c/long"].map(|name| has(&BENCH, name));
        assert_eq!(known, [true, true, false, false, false]);
    }

    #[test]
    fn a_row_of_a_bench_is_a_row_of_the_page() {
        let rows = [
            r#"{"bench":"b","case":"c","metric":"m","unit":"s","value":1.234,"baseline":null,"ratio":null,"runs":5}"#,
            r#"{"bench":"b","case":"c","metric":"n","unit":"s","value":250.4,"baseline":125.2,"ratio":2.0,"runs":5}"#,
        ];
        let figures: Vec<Figure> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
        let table = table(&figures);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(lines, ["| c | m (s) | 1.23 | - | - | 5 |", "|  | n (s) | 250 | 125 | 2.00 | 5 |"]);
    }
}
