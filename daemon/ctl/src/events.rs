//! `berthctl events`: what was decided about the pods of this node, and what happened to them.

use std::time::Duration;

use anyhow::Result;
use berth_proto::admin::{EventsRequest, Occurrence};
use clap::Args;
use serde::Serialize;

use super::cli::Global;
use super::output::{self, Columns, ListOutputArgs, full_name, or_dash};
use super::{admin, duration};

/// Flags of `events`.
#[derive(Args, Debug)]
pub(crate) struct EventsArgs {
    /// A pod name, namespace/name or UID [default: every pod]
    #[arg(value_name = "POD")]
    pub pod: Option<String>,
    /// How many are shown, the newest ones
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub last: usize,
    /// How to show it.
    #[command(flatten)]
    pub output: ListOutputArgs,
}

/// Runs `events`.
pub(crate) async fn events(global: &Global, args: &EventsArgs) -> Result<()> {
    let mut client = admin::connect(global).await?;
    let request = EventsRequest { pod: args.pod.clone().unwrap_or_default() };
    let answer = client.events(admin::request(global, request)).await;
    let all = answer.map_err(|status| admin::failed("Events", &status))?.into_inner().events;
    let newest = all.len().saturating_sub(args.last);
    let events: Vec<ShownEvent> = all.iter().skip(newest).map(ShownEvent::from).collect();
    output::data(args.output.plain(), &Shown { events: &events }, || text(&events, args.output.columns()))
}

fn text(events: &[ShownEvent], columns: Columns) -> String {
    if events.is_empty() {
        return "berthd remembers nothing about that: it keeps what happened since it started, the newest of each pod\n"
            .to_owned();
    }
    let rows = events.iter().map(|event| {
        let mut row = vec![event.age(), full_name(&event.namespace, &event.pod)];
        row.extend([or_dash(&event.container), event.sentence(), event.what.clone()]);
        row.push(event.pod_uid.clone());
        row
    });
    let few = ["AGE", "POD", "CONTAINER", "WHAT HAPPENED"];
    output::list(columns, &few, &["KIND", "POD UID"], rows)
}

/// Entries of one pod, oldest first.
pub(crate) fn table(events: &[ShownEvent]) -> String {
    let rows = events.iter().map(|event| vec![event.age(), or_dash(&event.container), event.sentence()]);
    output::table(&["AGE", "CONTAINER", "WHAT HAPPENED"], rows)
}

/// The answer as protobuf's JSON.
#[derive(Serialize)]
struct Shown<'a> {
    events: &'a [ShownEvent],
}

/// An entry as protobuf's JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownEvent {
    namespace: String,
    pod: String,
    pod_uid: String,
    container: String,
    what: String,
    text: String,
    times: u32,
    first_age_milliseconds: String,
    age_milliseconds: String,
    #[serde(skip)]
    age: u64,
    #[serde(skip)]
    lasted: u64,
}

impl ShownEvent {
    fn age(&self) -> String {
        duration::short(Duration::from_millis(self.age))
    }

    fn sentence(&self) -> String {
        match self.times {
            0 | 1 => self.text.clone(),
            times => {
                let lasted = duration::short(Duration::from_millis(self.lasted));
                format!("{} ({times} times in {lasted})", self.text)
            }
        }
    }
}

impl From<&Occurrence> for ShownEvent {
    fn from(event: &Occurrence) -> Self {
        Self {
            namespace: event.namespace.clone(),
            pod: event.pod.clone(),
            pod_uid: event.pod_uid.clone(),
            container: event.container.clone(),
            what: event.what.clone(),
            text: event.text.clone(),
            times: event.times,
            first_age_milliseconds: event.first_age_milliseconds.to_string(),
            age_milliseconds: event.age_milliseconds.to_string(),
            age: event.age_milliseconds,
            lasted: event.first_age_milliseconds.saturating_sub(event.age_milliseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_what_happened() {
        let event = |container: &str, text: &str, times, age| Occurrence {
            namespace: "shop".into(),
            pod: "web".into(),
            pod_uid: "u-1".into(),
            container: container.into(),
            what: "Refused".into(),
            text: text.into(),
            times,
            age_milliseconds: age,
            first_age_milliseconds: 65_000,
        };
        let events =
            [event("", "its sandbox was created", 1, 65_000), event("app", "is refused: x", 4, 5000)];
        let shown: Vec<ShownEvent> = events.iter().map(ShownEvent::from).collect();
        let expected = "\
AGE    POD        CONTAINER   WHAT HAPPENED
1m5s   shop/web   -           its sandbox was created
5.0s   shop/web   app         is refused: x (4 times in 1m0s)
";
        assert_eq!(text(&shown, Columns::Few), expected);
        let wide = text(&shown, Columns::All);
        assert!(wide.contains("KIND      POD UID\n") && wide.ends_with("Refused   u-1\n"), "{wide}");
        assert!(text(&[], Columns::Few).contains("since it started"));
        let json = serde_json::to_value(&shown[1]).unwrap();
        assert_eq!((&json["ageMilliseconds"], &json["what"]), (&"5000".into(), &"Refused".into()));
        assert!(json.get("age").is_none());
    }
}
