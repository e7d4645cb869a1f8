//! Tables and properties of the wire editor.

use berth_cri::StopContainerRequest;
use proptest::prelude::*;
use prost::Message;

use super::*;

#[test]
fn replaces_in_place_and_appends_when_missing() {
    // id "a", [timeout], and a field 9999 that nobody knows.
    let unknown = [0xf8, 0xf0, 0x04, 0x07];
    let table: [(&[u8], u64, &[u8]); 6] = [
        (&[], 5, &[0x10, 5]),
        (&[0x0a, 1, b'a'], 5, &[0x0a, 1, b'a', 0x10, 5]),
        (&[0x10, 30], 5, &[0x10, 5]),
        (&[0x10, 30, 0x0a, 1, b'a'], 300, &[0x10, 0xac, 0x02, 0x0a, 1, b'a']),
        // Duplicates: the last one counts.
        (&[0x10, 30, 0x10, 31], 5, &[0x10, 30, 0x10, 5]),
        // The same number with another wire type is an unknown field, and stays.
        (&[0x12, 1, 0], 5, &[0x12, 1, 0, 0x10, 5]),
    ];
    for (message, value, expected) in table {
        assert_eq!(set_varint(message, 2, value).unwrap(), expected, "{message:?}");
        let with_unknown = [&unknown[..], message].concat();
        let expected = [&unknown[..], expected].concat();
        assert_eq!(set_varint(&with_unknown, 2, value).unwrap(), expected, "{with_unknown:?}");
    }
}

#[test]
fn a_field_inside_a_group_is_another_field() {
    // group 3 { field 2: 9 }
    let message = [0x1b, 0x10, 9, 0x1c];
    assert_eq!(set_varint(&message, 2, 5).unwrap(), [0x1b, 0x10, 9, 0x1c, 0x10, 5][..]);
}

#[test]
fn refuses_what_is_no_message() {
    let table: [&[u8]; 10] = [
        &[0x10],
        &[0x0a, 5, b'a'],
        &[0x00, 1],
        &[0x1b],
        &[0x1c],
        &[0x1b, 0x24],
        &[0x16, 0],
        &[0x11, 0, 0],
        &[0xff; 11],
        &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    ];
    for message in table {
        assert!(set_varint(message, 2, 5).is_err(), "{message:?}");
    }
}

#[test]
fn deep_groups_do_not_overflow() {
    let mut message = vec![0x1b; 1 << 20];
    assert!(set_varint(&message, 2, 5).is_err());
    message.extend(vec![0x1c; 1 << 20]);
    assert!(set_varint(&message, 2, 5).is_ok());
}

/// One field with any number and wire type, as its bytes.
fn any_field() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![1..6_u64, 1..=MAX_FIELD_NUMBER];
    (number, 0..4_u8, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
        |(number, kind, value, bytes)| {
            let mut out = BytesMut::new();
            match kind {
                0 => {
                    put_varint(&mut out, number << 3);
                    put_varint(&mut out, value);
                }
                1 => {
                    put_varint(&mut out, number << 3 | 1);
                    out.put_u64_le(value);
                }
                2 => {
                    put_varint(&mut out, number << 3 | 2);
                    put_varint(&mut out, bytes.len() as u64);
                    out.put_slice(&bytes);
                }
                _ => {
                    put_varint(&mut out, number << 3 | 5);
                    out.put_u32_le(value as u32);
                }
            }
            out.to_vec()
        },
    )
}

/// All fields but the varint ones with number 2: key and value, as bytes.
fn others(message: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = Vec::new();
    let mut at = 0;
    while at < message.len() {
        let field = field(message, at).unwrap();
        if field.number != 2 || field.wire_type != VARINT {
            fields.push(message[at..field.value.end].to_vec());
        }
        at = field.value.end;
    }
    fields
}

proptest! {
    #[test]
    fn never_panics(message in proptest::collection::vec(any::<u8>(), 0..200), value: u64) {
        let _ = set_varint(&message, 2, value);
    }

    #[test]
    fn all_other_fields_stay_identical(fields in proptest::collection::vec(any_field(), 0..12), value: u64) {
        let message = fields.concat();
        let edited = set_varint(&message, 2, value).unwrap();
        prop_assert_eq!(others(&message), others(&edited));
        // Set to what it is now, nothing changes at all.
        prop_assert_eq!(set_varint(&edited, 2, value).unwrap(), &edited);
    }

    #[test]
    fn others_read_what_was_set(id in "[a-z0-9]{0,64}", old: i64, value: i64) {
        let message = StopContainerRequest { container_id: id.clone(), timeout: old }.encode_to_vec();
        let edited = set_varint(&message, 2, value as u64).unwrap();
        let read = StopContainerRequest::decode(edited).unwrap();
        prop_assert_eq!(read, StopContainerRequest { container_id: id, timeout: value });
    }
}
