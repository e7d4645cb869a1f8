//! The place of a call in the trace of its client: the header `traceparent` of W3C Trace Context, read from a
//! copy where somebody wants to know it. The header itself goes on to the runtime as it came.

use std::{
    fmt,
    num::{NonZeroU64, NonZeroU128},
};

use http::{HeaderMap, HeaderValue};

/// Name of the header.
pub const TRACEPARENT: &str = "traceparent";
/// Length of what every version begins with: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const LENGTH: usize = 55;
/// The flag of one that is recorded.
const SAMPLED: u8 = 1;

/// The span of a client that a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Identity of the trace.
    pub trace: NonZeroU128,
    /// Identity of the span in it.
    pub span: NonZeroU64,
    /// Whether the client records it.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads the header; `None` when there is none that counts. Two of them are none: nobody knows which one
    /// is right.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        if values.next().is_some() { None } else { Self::parse(value.as_bytes()) }
    }

    /// Reads a value. A later version may have more behind what is known of it; its rest is not looked at.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (known, rest) = text.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = [0..2, 3..35, 36..52, 53..55].map(|digits| hex(&known[digits]));
        let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let (version, flags) = (u8::try_from(version?).ok()?, u8::try_from(flags?).ok()?);
        let ends = match version {
            0 => rest.is_empty(),
            u8::MAX => false,
            _ => matches!(rest.first(), None | Some(b'-')),
        };
        if !dashes || !ends {
            return None;
        }
        Some(Self {
            trace: NonZeroU128::new(trace?)?,
            span: NonZeroU64::new(u64::try_from(span?).ok()?)?,
            sampled: flags & SAMPLED != 0,
        })
    }

    /// Gives the value of the header.
    pub fn header(&self) -> HeaderValue {
        let Ok(value) = HeaderValue::try_from(self.to_string()) else {
            unreachable!("digits and dashes are a header");
        };
        value
    }
}

/// Digits in lower case, as the standard wants them, and nothing else.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
#[path = "tests/trace.rs"]
mod tests;
