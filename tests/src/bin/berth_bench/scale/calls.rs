//! Calls that the API server has counted.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;

const COUNTER: &str = "apiserver_request_total{";

/// How many calls there were, by verb and resource. A watch counts when it ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(BTreeMap<(String, String), f64>);

impl Calls {
    /// Reads all calls until now.
    pub(super) async fn read(client: &Client) -> Result<Self> {
        let request = http::Request::get("/metrics").body(Vec::new()).context("request")?;
        Self::parse(&client.request_text(request).await.context("/metrics of the API server")?)
    }

    fn parse(page: &str) -> Result<Self> {
        let mut calls = Self::default();
        for line in page.lines() {
            let Some((labels, value)) = line.strip_prefix(COUNTER).and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let label = |name: &str| {
                let found = labels.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\""));
                found.and_then(|value| value.strip_suffix('"')).unwrap_or_default().to_owned()
            };
            let mut resource = label("resource");
            for part in ["group", "subresource"].map(label).iter().filter(|part| !part.is_empty()) {
                resource = format!("{resource}/{part}");
            }
            let count = value.parse::<f64>().with_context(|| format!("a counter: {line}"))?;
            *calls.0.entry((label("verb"), resource)).or_default() += count;
        }
        Ok(calls)
    }

    /// Calls since an earlier reading; those of this bench for its readings have no resource, and are left
    /// out.
    pub(super) fn since(&self, before: &Self) -> Self {
        let news = self.0.iter().filter(|((_, resource), _)| !resource.starts_with('/'));
        let news = news.map(|(key, count)| (key.clone(), count - before.0.get(key).unwrap_or(&0.0)));
        Self(news.filter(|(_, count)| *count > 0.0).collect())
    }

    /// As many of these as there are in another time.
    pub(super) fn in_time(&self, time: Duration, of: Duration) -> Self {
        let share = time.as_secs_f64() / of.as_secs_f64();
        Self(self.0.iter().map(|(key, count)| (key.clone(), count * share)).collect())
    }

    /// Calls beyond those of others: neither watches nor Leases; watches; calls for Leases.
    pub(super) fn beyond(&self, others: &Self) -> (f64, f64, f64) {
        let (mut calls, mut watches, mut leases) = (0.0, 0.0, 0.0);
        for (key, count) in &self.0 {
            let more = (count - others.0.get(key).unwrap_or(&0.0)).max(0.0);
            match key {
                (verb, _) if verb == "WATCH" => watches += more,
                (_, resource) if resource.starts_with("leases") => leases += more,
                _ => calls += more,
            }
        }
        (calls, watches, leases)
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.iter().map(|((verb, resource), count)| format!("{count:.0} {verb} {resource}"));
        f.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(patches: u32) -> Calls {
        let line = |verb: &str, resource: &str, sub: &str, count: u32| {
            format!(
                "{COUNTER}code=\"200\",component=\"apiserver\",group=\"\",resource=\"{resource}\",scope=\"resource\",subresource=\"{sub}\",verb=\"{verb}\",version=\"v1\"}} {count}\n"
            )
        };
        let lines = [
            "# HELP apiserver_request_total [STABLE] Counter\n".to_owned(),
            line("PATCH", "pods", "status", patches),
            line("WATCH", "pods", "", 7 + patches),
            line("PUT", "leases", "", 2 * patches),
            line("GET", "", "/metrics", patches),
        ];
        Calls::parse(&lines.concat()).unwrap()
    }

    #[test]
    fn what_others_do_is_taken_off() {
        let spent = page(30).since(&page(10));
        assert_eq!(spent.beyond(&Calls::default()), (20.0, 20.0, 40.0));
        assert_eq!(spent.beyond(&page(20).since(&page(10))), (10.0, 10.0, 20.0));
        let half = spent.in_time(Duration::from_secs(30), Duration::from_secs(60));
        assert_eq!(spent.beyond(&half), (10.0, 10.0, 20.0));
        assert_eq!(spent.to_string(), "20 PATCH pods/status, 40 PUT leases, 20 WATCH pods");
    }
}
