//! Any answer in any pieces: the same bytes come out, and the one message of it is longer by the suffix.

use proptest::prelude::*;

use super::*;

const SUFFIX: &[u8] = b"more";

/// Sends these frames through. Gives what comes out, joined, and what became of the answer.
fn through<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Option<Outcome>) {
    let mut append = Append::new(Bytes::from_static(SUFFIX));
    let mut out = Vec::new();
    for frame in frames {
        out.extend(append.frame(Bytes::copy_from_slice(frame)));
    }
    out.extend(append.end());
    (out, append.outcome())
}

fn message(flag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[flag][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

#[test]
fn appends_where_it_can_and_passes_the_rest() {
    let whole = message(0, b"hello");
    let longer = message(0, b"hellomore");
    let two = [&whole[..], &message(0, b"again")].concat();
    type Row<'a> = (&'a str, &'a [u8], &'a [u8], Option<Outcome>);
    let table: [Row<'_>; 10] = [
        ("a message", &whole, &longer, Some(Outcome::Appended)),
        ("nothing", b"", b"", None),
        ("half a prefix", &whole[..3], &whole[..3], None),
        ("an empty message", &message(0, b""), &message(0, b""), Some(Outcome::Empty)),
        ("a compressed one", &message(1, b"gzip"), &message(1, b"gzip"), Some(Outcome::Compressed)),
        ("a compressed empty one", &message(1, b""), &message(1, b""), Some(Outcome::Compressed)),
        ("no gRPC", b"<html>", b"<html>", Some(Outcome::Compressed)),
        // Cut off, and still cut off.
        ("half a message", &whole[..8], &longer[..8], None),
        ("a prefix alone", &whole[..5], &longer[..5], None),
        ("two messages", &two, &[&longer[..], &message(0, b"again")].concat(), Some(Outcome::Appended)),
    ];
    for (what, given, expected, outcome) in table {
        let frames: [&[&[u8]]; 2] = [&[given], &[b"", given, b""]];
        for frames in frames {
            assert_eq!(through(frames.iter().copied()), (expected.to_vec(), outcome), "{what}");
        }
        // Byte by byte.
        assert_eq!(through(given.chunks(1)), (expected.to_vec(), outcome), "{what}");
    }
}

#[test]
fn keeps_back_nothing_but_the_prefix() {
    let mut append = Append::new(Bytes::from_static(SUFFIX));
    let table: [(&[u8], &[u8]); 6] = [
        (&[0, 0], b""),
        (&[0, 0], b""),
        (&[3, b'a'], &[0, 0, 0, 0, 7, b'a']),
        (b"b", b"b"),
        (b"c", b"cmore"),
        (b"", b""),
    ];
    for (frame, expected) in table {
        assert_eq!(append.frame(Bytes::from_static(frame)), expected, "{frame:?}");
    }
    assert_eq!(append.end(), b""[..]);
}

#[test]
fn the_kubelets_limit_stays_the_kubelets_limit() {
    for (length, outcome) in [(MAX_LENGTH - SUFFIX.len(), Outcome::Appended), (MAX_LENGTH, Outcome::TooLarge)]
    {
        let given = message(0, &vec![7; length]);
        let (out, became) = through(given.chunks(16 << 10));
        assert_eq!(became, Some(outcome));
        match outcome {
            Outcome::Appended => assert!(out == message(0, &[&given[PREFIX..], SUFFIX].concat())),
            _ => assert!(out == given),
        }
    }
    // The largest length that can be announced overflows nothing.
    let announced = [0, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(through([&announced[..]]), (announced.to_vec(), Some(Outcome::TooLarge)));
}

proptest! {
    #[test]
    fn the_cut_does_not_matter(
        flag in 0..3_u8,
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
        after in proptest::collection::vec(any::<u8>(), 0..20),
        cuts in proptest::collection::vec(0..9_usize, 0..60),
    ) {
        let given = [message(flag, &bytes), after.clone()].concat();
        let mut rest = &given[..];
        let mut frames = Vec::new();
        for cut in cuts {
            let (frame, tail) = rest.split_at(cut.min(rest.len()));
            frames.push(frame);
            rest = tail;
        }
        frames.push(rest);
        let expected = match (flag, bytes.len()) {
            (0, 1..) => [message(0, &[&bytes, SUFFIX].concat()), after].concat(),
            _ => given.clone(),
        };
        prop_assert_eq!(through(frames).0, expected);
    }

    #[test]
    fn never_panics(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..12)) {
        through(frames.iter().map(Vec::as_slice));
    }
}
