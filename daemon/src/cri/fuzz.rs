//! Fuzzing of what a runtime says of a container, in the JSON of its own.

use berth_proto::cri;

use super::creation_record::CreationRecord;

/// Env that was read is there whole.
pub fn made(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let info = [("info".to_owned(), text.to_owned())].into();
    let status = cri::ContainerStatus { finished_at: data.len() as i64, ..Default::default() };
    if let Some(env) = CreationRecord::read(status, &info).env {
        assert!(env.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= text.len());
    }
}
