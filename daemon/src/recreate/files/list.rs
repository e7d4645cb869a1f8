//! The requests that are files, for people.

use jiff::Timestamp;

use super::{Files, record::Accepted};
use crate::recreate::codec::{self, Row};

impl Files {
    /// All of them, and files that should be some; the oldest first.
    pub(crate) async fn list(&self) -> Vec<Row> {
        let (mut rows, now) = (Vec::new(), Timestamp::now());
        for entry in self.0.entries.all() {
            let state = entry.state.lock().await;
            if state.gone {
                continue;
            }
            let record = &state.record;
            let said = record
                .accepted
                .clone()
                .or_else(|| state.wanted.as_ref().map(|wanted| Accepted::of(wanted, entry.stem())));
            let (namespace, name, spec) = match said {
                Some(Accepted { namespace, name, spec }) => (namespace, name, spec),
                None => (String::new(), entry.stem().to_owned(), Default::default()),
            };
            let objection = record.objection().map(str::to_owned);
            let age = now.duration_since(record.created).as_millis();
            let row = Row {
                namespace,
                name,
                origin: if entry.path.starts_with(&self.0.submitted) { "admin" } else { "file" },
                file: entry.path.display().to_string(),
                pod: spec.pod_name,
                pod_uid: record.status.pod_uid.clone().unwrap_or_default(),
                containers: spec.containers.into_iter().map(|container| container.name).collect(),
                report: codec::read(&record.status),
                age_milliseconds: u64::try_from(age).unwrap_or(0),
                objection: objection
                    .or_else(|| state.damaged.clone())
                    .or_else(|| state.trouble.clone())
                    .unwrap_or_default(),
            };
            rows.push((record.created, row));
        }
        rows.sort_by(|(a, one), (b, other)| (a, &one.file).cmp(&(b, &other.file)));
        rows.into_iter().map(|(_, row)| row).collect()
    }
}
