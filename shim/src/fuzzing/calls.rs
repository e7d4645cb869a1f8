//! Any message for any method of the table: it is read or it is not, as its own type says, and nothing of it
//! is printed that may be a secret.

use berth_cri as cri;
use bytes::Bytes;
use prost::Message;

use crate::{
    edit,
    intercept::{Asked, Method, Undecodable},
};

/// The first byte is the method, the others are the message.
pub fn calls(data: &[u8]) {
    let Some((method, message)) = data.split_first() else { return };
    let method = Method::ALL[usize::from(*method) % Method::ALL.len()];
    let message = Bytes::copy_from_slice(message);
    let asked = method.read(message.clone());
    let is_message = match method {
        Method::CreateContainer => cri::CreateContainerRequest::decode(message).is_ok(),
        Method::RunPodSandbox => cri::RunPodSandboxRequest::decode(message).is_ok(),
        Method::PullImage => cri::PullImageRequest::decode(message).is_ok(),
        _ => asked.is_ok(),
    };
    match asked {
        Ok(Asked::Statuses(field)) => assert!([edit::OF_SANDBOX, edit::OF_EVENT].contains(&field)),
        Ok(_) => assert!(is_message),
        Err(Undecodable::Incomplete(_)) => assert!(is_message),
        Err(Undecodable::Message(_)) => assert!(!is_message),
    }
}
