//! Our own CRI suite, each case of it twice: directly at containerd, and through berthd. Both must answer the
//! same.
//!
//! Every test is one case. What it does it writes into a transcript (`berth_tests::compare`), the transcripts
//! of both ways have to be equal, and they have to show what the case is about: two ways that fail alike are
//! no success. One node without kubelet and API server serves all of them; berthd takes this process for the
//! kubelet, whose connections are the only ones on which it may ever answer otherwise than the runtime.

mod attach;
mod cancelled;
mod containers;
mod errors;
mod exec;
mod images;
mod lists;
mod logs;
mod port_forward;
mod pulls;
mod resources;
mod sandboxes;
mod security;
mod sizes;
mod stats;
mod way;
mod wire;

use anyhow::{Context, Result, anyhow};
use berth_tests::compare::{Side, Transcript};
use berth_tests::node::{Node, Registry};
use tokio::sync::OnceCell;

use self::way::{Sandbox, Way};

/// The same length, so that nothing differs in size either.
const TOKENS: [&str; 2] = ["side-a", "side-b"];

/// Bench that all cases share.
struct Bench {
    node: Node,
    registry: Registry,
    private: Registry,
    /// A sandbox of each way, for the cases that need none of their own.
    homes: [OnceCell<Sandbox>; 2],
}

static BENCH: OnceCell<Result<Bench, String>> = OnceCell::const_new();

async fn bring_up() -> Result<Bench> {
    let node = Node::builder().api(false).kubelet(false).own_kubelet().start().await?;
    let (registry, private) =
        tokio::try_join!(Registry::start(node.run()), Registry::start_private(node.run()))?;
    Ok(Bench { node, registry, private, homes: Default::default() })
}

/// Tells whether containerd is 2.x, which answers some calls otherwise than the distribution's 1.6.
fn is_newer() -> bool {
    std::env::var("BERTH_TESTS_CONTAINERD").is_ok_and(|release| release != "1.6")
}

/// Runs a case both ways, and compares. `shows` are parts of lines of the transcript, in their order.
async fn same(name: &'static str, shows: &[&str], case: impl AsyncFn(&Way) -> Result<()>) -> Result<()> {
    crate::slots::take().await;
    let bench = BENCH.get_or_init(async || bring_up().await.map_err(|error| format!("{error:#}"))).await;
    let bench = bench.as_ref().map_err(|error| anyhow!("the node did not come up: {error}"))?;
    let sockets = [bench.node.containerd().socket(), bench.node.berthd()?.socket()];
    let go = async |index: usize| {
        let side = Side::connect(sockets[index], TOKENS[index]).await?;
        let way = Way::new(side, bench, &bench.homes[index], name);
        let outcome = case(&way).await;
        let transcript = way.transcript();
        let cleared = way.clear().await;
        outcome.with_context(|| format!("after {:#?}", transcript.lines()))?;
        cleared.context("remove what the case made")?;
        anyhow::Ok(transcript)
    };
    let (direct, berthd) = tokio::join!(go(0), go(1));
    Transcript::check_same(&direct.context("direct")?, &berthd.context("through berthd")?, shows)
}
