//! The connection to berthd's admin socket.

use std::path::Path;

use anyhow::{Result, anyhow};
use berth_proto::admin::admin_client::AdminClient;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::channel::{MESSAGE_LIMIT, dial};
use super::cli::Global;
use super::output;

/// Connects; when berthd is down the error says so and how to start it.
pub(crate) async fn connect(global: &Global) -> Result<AdminClient<Channel>> {
    let socket = &global.admin_socket;
    let channel = dial(socket, global.timeout).await.map_err(|error| unreachable(socket, &error))?;
    Ok(AdminClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT))
}

/// A request with the deadline of `--timeout`.
pub(crate) fn request<T>(global: &Global, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(global.timeout);
    request
}

/// An admin call that failed.
pub(crate) fn failed(call: &str, status: &Status) -> anyhow::Error {
    anyhow!("berthd could not answer {call}: {}", output::status(status))
}

fn unreachable(socket: &Path, error: &str) -> anyhow::Error {
    anyhow!(
        "berthd is not reachable at {}: {error}; start it (systemctl start berthd), run berthctl as root, or name its \
         socket with --admin-socket",
        socket.display()
    )
}

#[cfg(test)]
mod tests {
    use crate::fake::{Node, global};
    use crate::fake_berthd::Berthd;
    use crate::get::{Get, ListArgs, get};
    use crate::order::{OrderArgs, order};
    use crate::output::{Format, ListFormat, ListOutputArgs, OutputArgs};
    use crate::status::{StatusArgs, status};

    #[tokio::test]
    async fn berthd_is_asked_over_its_socket() {
        let node = Node::new(|_, _| Ok(()));
        let global = global(&node);
        let output = |format| OutputArgs { format };
        let args =
            |format| StatusArgs { ready: false, output: output(format), shim_socket: "/missing".into() };
        let down = status(&global, &args(Format::Table)).await.unwrap_err().to_string();
        assert!(
            down.contains("berthd is not reachable at") && down.contains("systemctl start berthd"),
            "{down}"
        );

        Berthd::default().serve(&node);
        status(&global, &args(Format::Json)).await.unwrap();
        let ask = |pod: Option<&str>| OrderArgs {
            pod: pod.map(str::to_owned),
            no_trunc: false,
            output: output(Format::Yaml),
        };
        order(&global, &ask(Some("web"))).await.unwrap();
        let unknown = order(&global, &ask(Some("nothing"))).await.unwrap_err().to_string();
        assert!(unknown.contains("berthd knows no pod \"nothing\" on this node; berthctl pods"), "{unknown}");
        let broken = order(&global, &ask(Some("broken"))).await.unwrap_err().to_string();
        assert_eq!(broken, "berthd could not answer Order: on fire (INTERNAL)");

        let ask = |name: Option<&str>| {
            let name = name.map(str::to_owned);
            ListArgs { name, output: ListOutputArgs { format: ListFormat::Json } }
        };
        for (list, what) in [(Get::Requests as fn(ListArgs) -> Get, "request"), (Get::Updates, "update")] {
            get(&global, &list(ask(None))).await.unwrap();
            get(&global, &list(ask(Some("again")))).await.unwrap();
            let unknown = get(&global, &list(ask(Some("other")))).await.unwrap_err().to_string();
            assert!(unknown.contains(&format!("berthd knows no {what} \"other\"")), "{unknown}");
        }
    }
}
