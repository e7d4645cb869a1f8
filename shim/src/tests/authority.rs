//! Clients that name the path of the socket, as their libraries write it, and what h2 makes of it.

use proptest::prelude::*;
use tokio::{io::AsyncWriteExt, net::UnixStream};

use super::*;
use crate::{
    http2::{self, Windows},
    socket::Socket,
};

const END_STREAM: u8 = 1;
/// `/run/berth/cri.sock`, `%2Frun%2Fberth%2Fcri.sock` and `localhost` in Huffman's code.
const PLAIN: [u8; 14] = [0x62, 0xcb, 0x6a, 0x62, 0x32, 0xd8, 0x99, 0xd8, 0x25, 0x86, 0x5d, 0x07, 0x27, 0x5f];
const ESCAPED: [u8; 18] = [
    0x54, 0x58, 0x6c, 0xb6, 0xa5, 0x45, 0x86, 0x32, 0xd8, 0x99, 0xd5, 0x16, 0x12, 0x58, 0x65, 0xd0, 0x72,
    0x75,
];
const LOCALHOST: [u8; 6] = [0xa0, 0xe4, 0x1d, 0x13, 0x9d, 0x09];

/// A text as HPACK has it.
fn text(huffman: bool, bytes: &[u8]) -> Vec<u8> {
    let flag = if huffman { HUFFMAN } else { 0 };
    [&[flag | bytes.len() as u8][..], bytes].concat()
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, stream]);
    frame.extend(payload);
    frame
}

/// The first block of headers of a client: a method and a scheme by their numbers, then an authority and a
/// path that are kept. A size of the table comes first, and last a field whose name has no number.
fn first(huffman: bool, authority: &[u8]) -> Vec<u8> {
    let path = text(false, b"/runtime.v1.RuntimeService/Version");
    let other = [&[0x10][..], &text(false, b"x-path"), &text(false, b"%/%/")].concat();
    [&[0x3f, 0xe1, 0x1f, 0x83, 0x86, 0x41][..], &text(huffman, authority), &[0x44], &path, &other].concat()
}

/// All that the client sends: the call, and another one with what was kept. In front of its first block, and
/// behind it, may be what frames have there.
fn sent(block: &[u8], adorned: bool) -> Vec<u8> {
    let (begin, end) = block.split_at(12);
    let calls = if adorned {
        let begin = [&[7][..], &[0, 0, 0, 0, 16], begin, b"%/%/ %/"].concat();
        let flags = PADDED | PRIORITY | END_STREAM;
        [frame(HEADERS, flags, 1, &begin), frame(CONTINUATION, END_HEADERS, 1, end)].concat()
    } else {
        frame(HEADERS, END_STREAM | END_HEADERS, 1, block)
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let again = frame(HEADERS, END_HEADERS, 3, &[0x83, 0x86, 0xbf, 0xbe]);
    // The message of that one is nobody's to change.
    let message = frame(0, END_STREAM, 3, b"\x41\x05%/%/%");
    [&preface[..], &frame(4, 0, 0, &[]), &calls, &again, &message].concat()
}

/// Result for these bytes where so many are read at once.
fn passed(bytes: &[u8], cut: usize) -> Vec<u8> {
    let (mut authorities, mut bytes) = (Authorities::new(), bytes.to_vec());
    bytes.chunks_mut(cut).for_each(|part| authorities.pass(part));
    bytes
}

/// The authorities of the calls, as h2 reads them.
async fn heard(bytes: &[u8], calls: usize) -> Vec<String> {
    let (socket, mut client) = UnixStream::pair().unwrap();
    client.write_all(bytes).await.unwrap();
    let socket = Socket::of_client(socket).unwrap();
    let mut connection: h2::server::Connection<Socket, bytes::Bytes> =
        http2::server(Windows::of(false)).handshake(socket).await.unwrap();
    let (mut heard, mut open) = (Vec::new(), Vec::new());
    for _ in 0..calls {
        let (request, respond) = connection.accept().await.unwrap().unwrap();
        heard.push(request.uri().authority().unwrap().to_string());
        open.push((request, respond));
    }
    heard
}

#[tokio::test]
async fn a_path_becomes_an_authority_in_the_first_call_and_in_those_that_refer_to_it() {
    for (huffman, authority, expected) in [
        (false, &b"/run/berth/cri.sock"[..], "3run3berth3cri.sock"),
        (true, &PLAIN[..], "3run3berth3cri.sock"),
        (false, &b"%2Frun%2Fberth%2Fcri.sock"[..], ".2Frun.2Fberth.2Fcri.sock"),
        (true, &ESCAPED[..], ".2Frun.2Fberth.2Fcri.sock"),
        (false, &b"localhost"[..], "localhost"),
        (true, &LOCALHOST[..], "localhost"),
    ] {
        for adorned in [false, true] {
            let sent = sent(&first(huffman, authority), adorned);
            assert_eq!(heard(&sent, 2).await, [expected, expected], "{huffman} {adorned}");
        }
    }
}

#[test]
fn only_the_authority_is_changed_however_it_is_cut() {
    for (huffman, authority) in [(false, &b"/run/x%.sock"[..]), (true, &PLAIN[..]), (true, &ESCAPED[..])] {
        for adorned in [false, true] {
            let block = first(huffman, authority);
            let sent = sent(&block, adorned);
            let whole = passed(&sent, usize::MAX);
            let changed = sent.iter().zip(&whole).filter(|(before, after)| before != after).count();
            assert!((1..=authority.len()).contains(&changed), "{changed}");
            assert!(whole.ends_with(b"%/%/%"), "a message was changed");
            assert!((1..60).all(|cut| passed(&sent, cut) == whole), "{huffman} {adorned}");
        }
    }
}

#[test]
fn a_client_with_a_good_one_is_not_looked_at_any_more() {
    for (huffman, authority, over) in
        [(false, &b"localhost"[..], true), (true, &LOCALHOST[..], true), (true, &PLAIN[..], false)]
    {
        let mut authorities = Authorities::new();
        authorities.pass(&mut sent(&first(huffman, authority), true));
        assert_eq!(authorities.is_over(), over);
    }
}

proptest! {
    #[test]
    fn whatever_a_client_sends_the_cut_does_not_matter(
        block in prop::collection::vec(any::<u8>(), 0..80),
        rest in prop::collection::vec(any::<u8>(), 0..200),
        cut in 1_usize..40,
    ) {
        let mended = sent(&first(true, &PLAIN), false);
        let bytes = [&mended[..], &frame(HEADERS, END_HEADERS, 5, &block), &rest].concat();
        prop_assert_eq!(passed(&bytes, cut), passed(&bytes, usize::MAX));
    }
}
