//! A server in a pod cannot send the node's probes anywhere else: where it leads to, nothing is dialled.

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::Container;
use berth_tests::markers::{Marker, says};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{Stage, every_second, run};

/// Writes down each request that comes to this port, and answers it with "here".
fn witness(port: u16) -> String {
    serve(port, "*) echo $path >> /tmp/seen; answer '200 OK' here ;;")
}

/// Answers requests on this port by these branches of a `case` of `$path`.
fn serve(port: u16, branches: &str) -> String {
    format!(
        "cat > /tmp/serve-{port} <<'END'
answer() {{ printf \"HTTP/1.1 $1\\r\\nLocation: $3\\r\\nContent-Length: ${{#2}}\\r\\nConnection: close\\r\\n\\r\\n$2\"; }}
read method path rest
while read line && [ ${{#line}} -gt 1 ]; do :; done
case $path in
{branches}
esac
END
nc -ll -p {port} -e sh /tmp/serve-{port} &"
    )
}

/// Returns everything that came to a witness.
async fn seen(stage: &Stage<'_>, pod: &str) -> Result<String> {
    let instances = stage.case.cri.containers(&stage.case.namespace, pod).await?;
    let main = instances.last().context("no container")?;
    let (_, output) = stage.case.cri.exec(&main.id, &["/bin/sh", "-c", "cat /tmp/seen 2>/dev/null"]).await?;
    Ok(output)
}

#[tokio::test]
async fn a_redirect_leads_nowhere_else() -> Result<()> {
    run("a_redirect_leads_nowhere_else", async |stage: &Stage| {
        let victim = Container::new("main").shell(&witness(7000));
        stage.case.create(&stage.manifest("victim").container(victim)).await?;
        let pod = stage.case.await_ready("victim").await?;
        let victim = pod.status.and_then(|status| status.pod_ip).context("no address")?;

        let leads = |to: &str| format!("answer '302 Found' '' {to}");
        let table = [
            ("same", leads("/fine"), "True", "it is fine"),
            ("by-name", leads("http://$host:8080/fine"), "True", "it is fine"),
            ("other-pod", leads(&format!("http://{victim}:7000/from-elsewhere")), "False", victim.as_str()),
            // Nobody is there on this machine, so this is only about what is said.
            ("metadata", leads("http://169.254.169.254/latest/meta-data"), "False", "169.254.169.254"),
            ("other-port", leads("http://127.0.0.1:7001/from-elsewhere"), "False", "refused"),
            ("own-other-port", leads("http://$host:7001/from-elsewhere"), "False", "refused"),
            ("https", leads("https://$host:7000/from-elsewhere"), "False", ""),
            ("around", leads("/around"), "False", ""),
        ];
        let mut branches = "/fine) answer '200 OK' 'it is fine' ;;\n".to_owned();
        for (name, answer, ..) in &table {
            branches += &format!("/{name}) host=$(hostname -i); {answer} ;;\n");
        }
        let main = Container::new("main").shell(&format!("{}\n{}", serve(8080, &branches), witness(7001)));
        stage.case.create(&stage.manifest("pod").container(main)).await?;
        stage.case.await_ready("pod").await?;
        let marker = table.iter().fold(Marker::new("marker", "pod"), |marker, (name, ..)| {
            let get = json!({ "port": 8080, "path": format!("/{name}") });
            marker.probe(name, "main", every_second("httpGet", get))
        });
        stage.mark(&marker).await?;
        let as_expected =
            |pod: &Pod| table.iter().try_for_each(|(name, _, status, words)| says(pod, name, status, words));
        stage.case.await_pod("pod", "was not led away", as_expected).await?;
        for witness in ["victim", "pod"] {
            ensure!(
                seen(stage, witness).await?.is_empty(),
                "{witness} was dialled: {}",
                seen(stage, witness).await?
            );
        }
        // They would have seen it: this is what a probe that follows does.
        stage.case.inside("pod", "main", &format!("wget -q -O - http://{victim}:7000/shown")).await?;
        stage.case.inside("pod", "main", "wget -q -O - http://127.0.0.1:7001/shown").await?;
        for witness in ["victim", "pod"] {
            let seen = seen(stage, witness).await?;
            ensure!(seen == "/shown\n", "{witness}: {seen:?}");
        }
        Ok(())
    })
    .await
}
