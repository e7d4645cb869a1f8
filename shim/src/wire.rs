//! Changes of a protobuf message without decoding it: every byte that is not the field in question stays as
//! it came.
//!
//! Decoding and encoding again would lose what our own message types do not know, and a newer kubelet always
//! knows more.

use bytes::{BufMut, Bytes, BytesMut};

/// The bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a protobuf message: broken at byte {at}")]
pub struct Malformed {
    /// Where the walk stopped.
    pub at: usize,
}

/// A field of the message, as it lies in its bytes.
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) wire_type: u8,
    /// Where its value begins and ends; what lies before, back to the end of the previous field, is its key.
    pub(crate) value: std::ops::Range<usize>,
}

impl Field {
    /// Finds where the content of a length-delimited field lies, without its length.
    pub(crate) fn content(&self, message: &[u8]) -> Result<std::ops::Range<usize>, Malformed> {
        let (_, begin) = varint(message, self.value.start)?;
        Ok(begin..self.value.end)
    }
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
pub(crate) const LENGTH_DELIMITED: u8 = 2;
const GROUP_START: u8 = 3;
const GROUP_END: u8 = 4;
const FIXED32: u8 = 5;
const MAX_FIELD_NUMBER: u64 = (1 << 29) - 1;

/// Sets the varint field `number` of the outermost message to `value`. Of several occurrences the last one
/// counts, so that one is replaced; without any, the field is appended. All other bytes stay, in their order.
pub fn set_varint(message: &[u8], number: u32, value: u64) -> Result<Bytes, Malformed> {
    let mut found = None;
    let mut at = 0;
    while at < message.len() {
        let field = field(message, at)?;
        if field.number == u64::from(number) && field.wire_type == VARINT {
            found = Some(field.value.clone());
        }
        at = field.value.end;
    }
    let mut edited = BytesMut::with_capacity(message.len() + 20);
    match found {
        Some(old) => {
            edited.put_slice(&message[..old.start]);
            put_varint(&mut edited, value);
            edited.put_slice(&message[old.end..]);
        }
        None => {
            edited.put_slice(message);
            put_varint(&mut edited, u64::from(number) << 3 | u64::from(VARINT));
            put_varint(&mut edited, value);
        }
    }
    Ok(edited.freeze())
}

/// The message with some of the fields of this number replaced; `None` when none was.
pub(crate) fn replace_each(
    message: &[u8],
    number: u64,
    replace: impl Fn(&[u8]) -> Result<Option<Bytes>, Malformed>,
) -> Result<Option<Bytes>, Malformed> {
    let mut edited = BytesMut::new();
    let (mut at, mut copied) = (0, 0);
    while at < message.len() {
        let field = field(message, at)?;
        if field.number == number && field.wire_type == LENGTH_DELIMITED {
            let content = field.content(message)?;
            if let Some(content) = replace(&message[content])? {
                edited.put_slice(&message[copied..at]);
                put_field(&mut edited, number, &content);
                copied = field.value.end;
            }
        }
        at = field.value.end;
    }
    if copied == 0 {
        return Ok(None);
    }
    edited.put_slice(&message[copied..]);
    Ok(Some(edited.freeze()))
}

/// Appends a length-delimited field.
pub(crate) fn put_field(out: &mut BytesMut, number: u64, content: &[u8]) {
    put_varint(out, number << 3 | u64::from(LENGTH_DELIMITED));
    put_varint(out, content.len() as u64);
    out.put_slice(content);
}

/// The field that begins at `start`.
pub(crate) fn field(message: &[u8], start: usize) -> Result<Field, Malformed> {
    let (key, at) = varint(message, start)?;
    let (number, wire_type) = (key >> 3, (key & 7) as u8);
    if number == 0 || number > MAX_FIELD_NUMBER {
        return Err(Malformed { at: start });
    }
    let end = match wire_type {
        VARINT => varint(message, at)?.1,
        FIXED64 => at + 8,
        FIXED32 => at + 4,
        LENGTH_DELIMITED => {
            let (length, begin) = varint(message, at)?;
            let length = usize::try_from(length).map_err(|_| Malformed { at })?;
            begin.checked_add(length).ok_or(Malformed { at })?
        }
        GROUP_START => group_end(message, number, at)?,
        _ => return Err(Malformed { at: start }),
    };
    if end > message.len() {
        return Err(Malformed { at });
    }
    Ok(Field { number, wire_type, value: at..end })
}

/// Finds where the group ends that began before `at`. Groups nest, so the open ones are kept in a list and
/// not on our stack: a hostile message must not overflow it.
fn group_end(message: &[u8], number: u64, mut at: usize) -> Result<usize, Malformed> {
    let mut open = vec![number];
    while let Some(innermost) = open.last() {
        let (key, after_key) = varint(message, at)?;
        match (key & 7) as u8 {
            GROUP_START => {
                open.push(key >> 3);
                at = after_key;
            }
            GROUP_END if key >> 3 == *innermost => {
                open.pop();
                at = after_key;
            }
            GROUP_END => return Err(Malformed { at }),
            _ => at = field(message, at)?.value.end,
        }
    }
    Ok(at)
}

/// The varint at `at`, and where it ends. At most ten bytes; bits beyond the 64th are refused.
fn varint(message: &[u8], at: usize) -> Result<(u64, usize), Malformed> {
    let mut value = 0_u64;
    for (index, byte) in message.iter().skip(at).take(10).enumerate() {
        if index == 9 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, at + index + 1));
        }
    }
    Err(Malformed { at })
}

pub(crate) fn put_varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

#[cfg(test)]
#[path = "tests/wire.rs"]
mod tests;
