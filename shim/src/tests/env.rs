//! Tables and properties of the change of env values.

use berth_cri::{ContainerConfig, ContainerMetadata, CreateContainerRequest, KeyValue};
use proptest::prelude::*;
use prost::Message;

use super::*;

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn request(env: &[(String, String)]) -> CreateContainerRequest {
    let envs = env.iter().map(|(key, value)| KeyValue { key: key.clone(), value: value.clone() }).collect();
    let metadata = Some(ContainerMetadata { name: "main".to_owned(), attempt: 1 });
    CreateContainerRequest {
        pod_sandbox_id: "s".to_owned(),
        config: Some(ContainerConfig { metadata, envs, ..Default::default() }),
        ..Default::default()
    }
}

#[test]
fn only_what_differs_is_changed() {
    let message = request(&pairs(&[("A", "1"), ("B", "2"), ("A", "3"), ("EMPTY", "")]));
    let bytes = message.encode_to_vec();
    let edited = |values: &[(&str, &str)]| {
        let edited = set_env(&bytes, &pairs(values)).unwrap();
        edited.map(|edited| CreateContainerRequest::decode(edited).unwrap())
    };
    assert_eq!(edited(&[]), None);
    assert_eq!(edited(&[("B", "2"), ("C", "9")]), None);
    let expect = request(&pairs(&[("A", "new\nline"), ("B", "2"), ("A", "new\nline"), ("EMPTY", "x")]));
    assert_eq!(edited(&[("A", "new\nline"), ("EMPTY", "x")]), Some(expect));
    let expect = request(&pairs(&[("A", "1"), ("B", ""), ("A", "3"), ("EMPTY", "")]));
    assert_eq!(edited(&[("B", "")]), Some(expect));
}

#[test]
fn what_nobody_knows_stays() {
    // Field 9999 before, in and after the config.
    let unknown: &[u8] = &[0xf8, 0xf0, 0x04, 0x07];
    let entry: &[u8] = &[0x0a, 1, b'A', 0x12, 1, b'1'];
    let framed = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let config = [unknown, &framed(0x32, &[entry, unknown].concat()), unknown].concat();
    let message = [unknown, &framed(0x12, &config), unknown].concat();
    let edited = set_env(&message, &pairs(&[("A", "22")])).unwrap().unwrap();
    let entry = [entry, unknown, &[0x12, 2, b'2', b'2']].concat();
    let config = [unknown, &framed(0x32, &entry), unknown].concat();
    assert_eq!(edited, [unknown, &framed(0x12, &config), unknown].concat());
}

proptest! {
    #[test]
    fn as_if_decoded_and_encoded(
        env in prop::collection::vec(("[A-C]{1,2}", "[a-c]{0,200}"), 0..6),
        values in prop::collection::vec(("[A-C]{1,2}", "[a-c]{0,200}"), 0..3),
    ) {
        let bytes = request(&env).encode_to_vec();
        let edited = set_env(&bytes, &values).unwrap();
        let wanted = |name: &String| values.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        let expect: Vec<_> =
            env.iter().map(|(name, value)| (name.clone(), wanted(name).unwrap_or_else(|| value.clone()))).collect();
        match edited {
            None => prop_assert_eq!(&expect, &env),
            Some(edited) => prop_assert_eq!(CreateContainerRequest::decode(edited).unwrap(), request(&expect)),
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        // Whatever it says: it ends, and does not panic.
        let _ = set_env(&bytes, &pairs(&[("A", "1")]));
    }
}
