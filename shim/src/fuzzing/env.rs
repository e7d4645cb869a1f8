//! Any request to create a container: the values that are set are there, the others are what they were, and
//! set again nothing changes.

use berth_cri::{CreateContainerRequest, KeyValue};
use prost::Message;

use crate::env::set_env;

/// A `CreateContainerRequest`.
pub fn env(data: &[u8]) {
    let values = [("A".to_owned(), "new".to_owned()), (String::new(), "named by nothing".to_owned())];
    let Ok(Some(edited)) = set_env(data, &values) else { return };
    assert_eq!(set_env(&edited, &values).ok(), Some(None), "set already");
    let (Ok(before), Ok(after)) =
        (CreateContainerRequest::decode(data), CreateContainerRequest::decode(&*edited))
    else {
        return;
    };
    let (before, after) = (before.config.unwrap_or_default(), after.config.unwrap_or_default());
    assert_eq!(before.envs.len(), after.envs.len());
    for (KeyValue { key, value }, now) in before.envs.into_iter().zip(after.envs) {
        assert_eq!(now.key, key);
        let wanted = values.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
        assert_eq!(now.value, wanted.unwrap_or(value));
    }
    assert_eq!((before.metadata, before.image), (after.metadata, after.image));
}
