//! Any bytes, any value: the editor changes the one field and nothing else, or says that it is no message.

use crate::wire::set_varint;

/// The field that is set.
const FIELD: u32 = 2;

/// A field of the outermost message: its number, its wire type, and all of its bytes. Written again here, and
/// not as the editor does it, so that a mistake has to be made twice.
struct Field<'a> {
    number: u64,
    wire_type: u64,
    bytes: &'a [u8],
}

/// The first eight bytes are the value, the others the message.
pub fn wire_edit(data: &[u8]) {
    let Some((value, message)) = data.split_first_chunk() else { return };
    let value = u64::from_be_bytes(*value);
    let Ok(edited) = set_varint(message, FIELD, value) else { return };
    let before = fields(message);
    let after = fields(&edited);
    let is_set = |field: &&Field<'_>| field.number == u64::from(FIELD) && field.wire_type == 0;

    // Every other field is there, in its place, byte for byte.
    let others = |fields: &[Field<'_>]| -> Vec<Vec<u8>> {
        fields.iter().filter(|field| !is_set(field)).map(|field| field.bytes.to_vec()).collect()
    };
    assert_eq!(others(&before), others(&after));

    // The last occurrence counts, and is what was asked for.
    let last = after.iter().rev().find(is_set).expect("the field is there");
    let (_, key) = varint(last.bytes);
    assert_eq!(varint(&last.bytes[key..]).0, value);

    // Nothing came or went but, at most, that one field.
    let missing = usize::from(!before.iter().any(|field| is_set(&field)));
    assert_eq!(after.len(), before.len() + missing);

    // Set to what it is, nothing changes.
    assert_eq!(set_varint(&edited, FIELD, value).expect("still a message"), edited);
}

fn fields(mut rest: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let length = field_length(rest);
        let (key, _) = varint(rest);
        let (bytes, tail) = rest.split_at(length);
        fields.push(Field { number: key >> 3, wire_type: key & 7, bytes });
        rest = tail;
    }
    fields
}

/// Returns the length of the field at the beginning; the message is known to be well-formed.
fn field_length(message: &[u8]) -> usize {
    let (key, mut at) = varint(message);
    match key & 7 {
        0 => at + varint(&message[at..]).1,
        1 => at + 8,
        2 => {
            let (length, size) = varint(&message[at..]);
            at + size + length as usize
        }
        3 => {
            let mut depth = 1;
            while depth > 0 {
                let (key, size) = varint(&message[at..]);
                match key & 7 {
                    3 => (depth, at) = (depth + 1, at + size),
                    4 => (depth, at) = (depth - 1, at + size),
                    _ => at += field_length(&message[at..]),
                }
            }
            at
        }
        5 => at + 4,
        other => panic!("wire type {other} was taken for a field"),
    }
}

fn varint(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return (value, index + 1);
        }
    }
    panic!("a varint without an end was taken for one")
}
