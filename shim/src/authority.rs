//! The `:authority` of clients that put the path of the socket into it, mended.
//!
//! A path is no authority (RFC 3986), and h2 resets each call that has one. The runtime's own library takes
//! anything, so kubelets before 1.31, gRPC for Java and many a tool name the path, plain or with `%2F`. A
//! character that no authority may have becomes one that it may have, in the bytes as they are read. Both are
//! equally long in Huffman's code, too: no length changes, and the two ends go on to agree on their tables of
//! what was sent before.
//!
//! ```text
//!   %2Frun%2Fberth%2Fcri.sock    .2Frun.2Fberth.2Fcri.sock
//!   /run/berth/cri.sock          3run3berth3cri.sock
//! ```
//!
//! Nobody goes by it: a socket leads to one runtime. A client with a good one in its first call has the same
//! in all others, and is not looked at any more. No other byte is ever changed.

/// Bytes that a client sends before its first frame.
const PREFACE: usize = 24;
/// Bytes of the head of a frame.
const HEAD: usize = 9;
/// Kinds of frames.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// Flags of a frame of headers.
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// Bytes of the priority in front of a block of headers.
const PRIORITY_BYTES: usize = 5;
/// The number of `:authority` in HPACK's static table.
const AUTHORITY: u8 = 1;
/// Another byte of an integer follows.
const MORE: u8 = 0x80;
/// A text is in Huffman's code.
const HUFFMAN: u8 = 0x80;
/// The value of a first byte of a length after which others follow.
const LONG: u8 = 0x7f;
/// Bits of a length beyond which it is none of a header.
const MOST_BITS: u32 = 21;

/// Reader of what a client sends.
#[derive(Debug)]
pub(crate) struct Authorities {
    part: Part,
    field: Field,
    symbol: Symbol,
    mended: bool,
}

/// Part of a connection that the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Bytes of no interest before the next frame, so many.
    Passed(usize),
    /// The head of a frame, of which so many bytes have come.
    Head([u8; HEAD], usize),
    /// Bytes in front of a block of headers. The first is the length of its padding, if it has any.
    Front {
        padded: bool,
        left: usize,
        block: Block,
    },
    Block(Block),
    /// Nothing is looked at any more.
    Over,
}

/// Rest of a block of headers, or of what one frame has of it.
#[derive(Clone, Copy, Debug)]
struct Block {
    left: usize,
    padding: usize,
    ends: bool,
}

/// Part of a field of a block of headers that the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum Field {
    Begin,
    /// The rest of an index, before a value or not.
    Index {
        literal: bool,
    },
    Length(Text),
    /// The rest of a length.
    Longer {
        text: Text,
        huffman: bool,
        length: usize,
        shift: u32,
    },
    Within {
        text: Text,
        huffman: bool,
        left: usize,
    },
    /// A field that cannot be followed.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Name,
    Authority,
    Value,
}

/// Bits of a symbol of Huffman's code that have come.
#[derive(Clone, Copy, Debug, Default)]
struct Symbol {
    bits: u32,
    code: u8,
    /// One of the long ones has come, which no path has; the rest of the text stays as it is.
    lost: bool,
}

// === impl Authorities ===

impl Authorities {
    /// A connection that begins.
    pub(crate) fn new() -> Self {
        Self { part: Part::Passed(PREFACE), field: Field::Begin, symbol: Symbol::default(), mended: false }
    }

    /// Tells whether nothing is looked at any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.part, Part::Over)
    }

    /// Looks through the next bytes, and mends them.
    pub(crate) fn pass(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() && !self.is_over() {
            at += self.take(&mut bytes[at..]);
        }
    }

    /// Takes some of these bytes, or goes on to the next part without any. Returns how many.
    fn take(&mut self, bytes: &mut [u8]) -> usize {
        let (part, taken) = match self.part {
            Part::Passed(left) if left > bytes.len() => (Part::Passed(left - bytes.len()), bytes.len()),
            Part::Passed(left) => (Part::Head([0; HEAD], 0), left),
            Part::Head(mut head, come) => {
                head[come] = bytes[0];
                let whole = come + 1 == HEAD;
                (if whole { self.frame(head) } else { Part::Head(head, come + 1) }, 1)
            }
            Part::Front { left: 0, block, .. } => (Part::Block(block), 0),
            Part::Front { padded: true, left, block } => (padded(usize::from(bytes[0]), left - 1, block), 1),
            Part::Front { padded: false, left, block } => {
                (Part::Front { padded: false, left: left - 1, block }, 1)
            }
            // Whoever has a good one has it in all calls.
            Part::Block(Block { left: 0, ends: true, .. }) if !self.mended => (Part::Over, 0),
            Part::Block(Block { left: 0, padding, .. }) => (Part::Passed(padding), 0),
            Part::Block(Block { left, padding, ends }) => {
                let taken = left.min(bytes.len());
                bytes[..taken].iter_mut().for_each(|byte| self.field(byte));
                (Part::Block(Block { left: left - taken, padding, ends }), taken)
            }
            Part::Over => (Part::Over, bytes.len()),
        };
        self.part = part;
        taken
    }

    /// Reads the head of a frame.
    fn frame(&mut self, head: [u8; HEAD]) -> Part {
        let [a, b, c, kind, flags, ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let ends = flags & END_HEADERS != 0;
        match kind {
            HEADERS => {
                self.field = Field::Begin;
                let padded = flags & PADDED != 0;
                let priority = if flags & PRIORITY != 0 { PRIORITY_BYTES } else { 0 };
                let front = usize::from(padded) + priority;
                match length.checked_sub(front) {
                    Some(left) => {
                        Part::Front { padded, left: front, block: Block { left, padding: 0, ends } }
                    }
                    // The connection ends by it.
                    None => Part::Over,
                }
            }
            CONTINUATION => Part::Block(Block { left: length, padding: 0, ends }),
            _ => Part::Passed(length),
        }
    }

    /// Reads the next byte of a block of headers (RFC 7541, 5 and 6), and mends it where it is one of an
    /// authority.
    fn field(&mut self, byte: &mut u8) {
        self.field = match self.field {
            Field::Begin => begun(*byte),
            Field::Index { literal } if *byte & MORE != 0 => Field::Index { literal },
            Field::Index { literal: true } => Field::Length(Text::Value),
            Field::Index { literal: false } => Field::Begin,
            Field::Length(text) => {
                self.symbol = Symbol::default();
                let (huffman, length) = (*byte & HUFFMAN != 0, *byte & LONG);
                match usize::from(length) {
                    length if *byte & LONG == LONG => Field::Longer { text, huffman, length, shift: 0 },
                    length => within(text, huffman, length),
                }
            }
            Field::Longer { text, huffman, length, shift } => {
                let length = length + (usize::from(*byte & !MORE) << shift);
                match *byte & MORE != 0 {
                    true if shift >= MOST_BITS => Field::Lost,
                    true => Field::Longer { text, huffman, length, shift: shift + 7 },
                    false => within(text, huffman, length),
                }
            }
            Field::Within { text, huffman, left } => {
                if text == Text::Authority {
                    self.mend(byte, huffman);
                }
                within(text, huffman, left - 1)
            }
            Field::Lost => Field::Lost,
        };
    }

    fn mend(&mut self, byte: &mut u8, huffman: bool) {
        let came = *byte;
        *byte = match came {
            _ if huffman => (0..u8::BITS).rev().fold(came, |byte, at| {
                let flip = self.symbol.next(came >> at & 1);
                byte ^ (flip << at)
            }),
            b' ' => b'-',
            b'%' => b'.',
            b'/' => b'3',
            other => other,
        };
        self.mended |= *byte != came;
    }
}

// === impl Symbol ===

impl Symbol {
    /// Takes the next bit; 1 where it has to be flipped. The code of `/` and the one of `3` differ in the
    /// last bit, those of `%` and `.`, and of the space and `-`, in the last but one; until then nothing else
    /// begins so.
    fn next(&mut self, bit: u8) -> u8 {
        if self.lost {
            return 0;
        }
        self.bits += 1;
        self.code = self.code << 1 | bit;
        let flip = u8::from(matches!((self.bits, self.code), (5, 0b0_1010) | (6, 0b01_1000)));
        self.code |= flip;
        // The code is a canonical one: shorter symbols have smaller numbers.
        let ends = match self.bits {
            5 => self.code < 0b0_1010,
            6 => self.code < 0b10_1110,
            7 => self.code < 0b111_1100,
            8 => self.code < 0b1111_1110,
            _ => false,
        };
        if ends {
            *self = Self::default();
        } else {
            self.lost = self.bits >= 8;
        }
        flip
    }
}

/// The part after the byte that says how long the padding is, which is none of the block.
fn padded(padding: usize, left: usize, block: Block) -> Part {
    match block.left.checked_sub(padding) {
        Some(rest) => {
            Part::Front { padded: false, left, block: Block { left: rest, padding, ends: block.ends } }
        }
        None => Part::Over,
    }
}

/// The part after the first byte of a field: an index, a literal that is kept, a size of the table, or a
/// literal that is not kept.
fn begun(byte: u8) -> Field {
    let (bits, literal) = match byte.leading_zeros() {
        0 => (7, false),
        1 => (6, true),
        2 => (5, false),
        _ => (4, true),
    };
    let most = (1_u8 << bits) - 1;
    match byte & most {
        index if index == most => Field::Index { literal },
        _ if !literal => Field::Begin,
        0 => Field::Length(Text::Name),
        AUTHORITY => Field::Length(Text::Authority),
        _ => Field::Length(Text::Value),
    }
}

/// The part with so many bytes of a text to come.
fn within(text: Text, huffman: bool, left: usize) -> Field {
    match (left, text) {
        (0, Text::Name) => Field::Length(Text::Value),
        (0, Text::Authority | Text::Value) => Field::Begin,
        _ => Field::Within { text, huffman, left },
    }
}

#[cfg(test)]
#[path = "tests/authority.rs"]
mod tests;
