//! Files of the directory of requests, and what was written beside them.

use std::path::Path;

use berth_proto::crd::NodeImage;
use jiff::Timestamp;

use super::{
    manifest,
    record::{Accepted, Record},
};
use crate::{base::clock::Clock, files::node_image};

/// A request that is taken has a pod and containers, and an error is short; a status that was read is written
/// and read again as the same.
pub fn files(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match manifest::read(text) {
        Ok(request) => {
            assert!(!request.spec.pod_name.is_empty() && !request.spec.containers.is_empty());
            let mut record = Record::new(Timestamp::UNIX_EPOCH);
            record.accepted = Some(Accepted::of(&request, "file"));
            taken(&record);
        }
        Err(error) => assert!(error.to_string().len() <= 400 + 3 * text.len(), "{error}"),
    }
    if let Some(Ok(NodeImage { spec, .. })) = node_image::read(text) {
        assert!(spec.images.values().all(|image| image.pull_secrets.is_empty()));
    }
    if let Ok(record) = Record::parse(text) {
        taken(&record);
    }
}

fn taken(record: &Record) {
    let request = record.request(Path::new("/etc/berth/desired/file.yaml"), &Clock::read());
    assert_eq!(request.is_some(), record.accepted.is_some());
    if let Some(Err(refused)) = request {
        assert!(refused.report().outcome.is_some());
    }
    let written = record.text().expect("what was read can be written");
    let again = Record::parse(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again, *record, "{written}");
}
