//! Questions of the admin socket, as anybody who may connect to it could ask them.

use berth_proto::admin;
use prost::Message;

use super::{pulls, requests, updates};

/// Checks that a request is complete, or refused with a reason.
pub fn admin(data: &[u8]) {
    if let Ok(asked) = admin::RecreateRequest::decode(data)
        && let Ok((pod, request)) = requests::wanted(asked.clone())
    {
        assert_eq!((pod, request.spec.containers.len()), (asked.pod, asked.containers.len()));
    }
    if let Ok(asked) = admin::UpdateRequest::decode(data)
        && let Ok((pod, spec)) = updates::wanted(asked.clone())
    {
        assert_eq!((pod, spec.containers.len()), (asked.pod, asked.containers.len()));
        let metadata = spec.metadata.unwrap_or_default();
        assert_eq!(
            metadata.labels.len() + metadata.annotations.len(),
            asked.labels.len() + asked.annotations.len()
        );
    }
    if let Ok(asked) = admin::PullRequest::decode(data) {
        match pulls::wish(&asked) {
            Ok(wish) => assert_eq!(*wish.image.given, *asked.image),
            Err(status) => assert!(!status.message().is_empty()),
        }
    }
}
