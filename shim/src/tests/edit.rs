//! A job sidecar among others in one message, however the bytes are cut.

use berth_cri as cri;
use proptest::prelude::*;

use super::*;

/// Makes an editor. Containers whose name begins with `s` are shown to have ended well.
fn editor(statuses: u64) -> Edit {
    let is_completed = Box::new(|container: &ContainerId| container.as_str().starts_with('s'));
    Edit { statuses, is_completed, begun: BytesMut::new(), broken: false, edited: 0 }
}

fn status(id: &str, code: i32, reason: &str) -> cri::ContainerStatus {
    cri::ContainerStatus {
        id: id.to_owned(),
        state: 2,
        exit_code: code,
        reason: reason.to_owned(),
        log_path: "/var/log/x.log".to_owned(),
        ..Default::default()
    }
}

/// A message with these statuses in a field that our own types do not have, between others that they do not
/// have.
fn message(number: u64, statuses: &[cri::ContainerStatus]) -> Vec<u8> {
    let mut message = BytesMut::new();
    wire::put_field(&mut message, 1, b"first");
    for status in statuses {
        wire::put_field(&mut message, number, &status.encode_to_vec());
    }
    wire::put_field(&mut message, 99, b"last");
    message.to_vec()
}

/// Passes the bytes through the editor in frames, and returns all that comes out of it.
fn through(edit: &mut Edit, bytes: &[u8], cut: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in bytes.chunks(cut) {
        out.extend_from_slice(&edit.frame(Bytes::copy_from_slice(frame)));
    }
    out.extend_from_slice(&edit.end());
    out
}

fn statuses(mut message: &[u8], number: u64) -> Vec<cri::ContainerStatus> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let field = field(message, 0).unwrap();
        if field.number == number {
            let content = field.content(message).unwrap();
            found.push(cri::ContainerStatus::decode(&message[content]).unwrap());
        }
        message = &message[field.value.end..];
    }
    found
}

#[test]
fn only_the_sidecar_is_shown_otherwise() {
    for number in [OF_SANDBOX, OF_EVENT] {
        let before = message(number, &[status("main", 3, "Error"), status("side", 137, "Error")]);
        let mut edit = editor(number);
        let out = through(&mut edit, &framed(&before), usize::MAX);
        assert_eq!(edit.edited(), 1);
        let shown = statuses(&out[PREFIX..], number);
        assert_eq!(shown, [status("main", 3, "Error"), status("side", 0, "Completed")]);
        assert!(out.ends_with(b"last"));
    }
}

#[test]
fn what_cannot_be_changed_passes() {
    let sidecar = message(OF_EVENT, &[status("side", 1, "Error")]);
    let mut compressed = framed(&sidecar).to_vec();
    compressed[0] = 1;
    let huge = [&[0, 0xff, 0xff, 0xff, 0xff], &sidecar[..]].concat();
    let malformed = framed(&[0xff, 0xff]).to_vec();
    let cut_off = framed(&sidecar)[..20].to_vec();
    for bytes in [compressed, huge, malformed, cut_off] {
        for cut in [1, 3, 1000] {
            assert_eq!(through(&mut editor(OF_EVENT), &bytes, cut), bytes);
        }
    }
}

#[test]
fn a_message_does_not_become_longer_than_the_kubelet_takes() {
    let side = [status("side", 137, "Error")];
    for (room, edited) in [(completed().len(), 1), (completed().len() - 1, 0)] {
        let mut long = BytesMut::from(&message(OF_EVENT, &side)[..]);
        // Before its content a field of this size has two bytes of a key and four of a length.
        let filler = MAX_MESSAGE - room - long.len() - 6;
        wire::put_field(&mut long, 98, &vec![0; filler]);
        assert_eq!(long.len(), MAX_MESSAGE - room);
        let (mut edit, before) = (editor(OF_EVENT), framed(&long));
        let out = through(&mut edit, &before, usize::MAX);
        assert_eq!((edit.edited(), out != before), (edited, edited == 1));
        assert!(out.len() <= PREFIX + MAX_MESSAGE);
    }
}

proptest! {
    #[test]
    fn however_it_is_cut(ids in prop::collection::vec("[ms][a-z]{0,3}", 0..6), cut in 1_usize..40) {
        let messages: Vec<Bytes> =
            ids.iter().map(|id| framed(&message(OF_EVENT, &[status(id, 9, "Error"), status("m", 0, "")]))).collect();
        let stream = messages.concat();
        let whole = through(&mut editor(OF_EVENT), &stream, usize::MAX);
        let mut edit = editor(OF_EVENT);
        prop_assert_eq!(through(&mut edit, &stream, cut), whole);
        prop_assert_eq!(edit.edited(), ids.iter().filter(|id| id.starts_with('s')).count() as u64);
    }
}
