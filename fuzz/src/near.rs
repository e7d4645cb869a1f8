//! The seeds, and what is near them: whole, cut off and with single bytes changed. Part of the ordinary tests
//! of each package that has targets.

use std::path::Path;

/// Bytes that are put in the place of a byte.
const BYTES: [u8; 8] = [0, 1, b'\n', b'"', b'9', b':', 0x7f, 0xff];

/// Tries the seeds of a target, each changed at no more than so many places. There must be one.
pub(crate) fn try_seeds(name: &str, target: fn(&[u8]), places: usize) {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|dir| dir.join("fuzz/seeds"));
    let seeds = above.into_iter().find(|dir| dir.is_dir()).expect("the seeds are above").join(name);
    let mut tried = 0;
    for seed in std::fs::read_dir(seeds).unwrap_or_else(|error| panic!("{name}: {error}")) {
        let seed = bytes(&seed.unwrap().path());
        target(&seed);
        for at in (0..seed.len()).step_by(seed.len().div_ceil(places).max(1)) {
            target(&seed[..at]);
            for byte in BYTES {
                let mut near = seed.clone();
                near[at] = byte;
                target(&near);
            }
        }
        tried += 1;
    }
    assert!(tried > 0, "{name} has no seeds");
}

/// A seed that is no text is kept in hexadecimal, as `run.sh` reads it.
fn bytes(seed: &Path) -> Vec<u8> {
    let content = std::fs::read(seed).unwrap();
    if seed.extension().is_none_or(|extension| extension != "hex") {
        return content;
    }
    let digits: Vec<u8> = content.into_iter().filter(u8::is_ascii_hexdigit).collect();
    let digit = |digit: u8| u8::try_from(char::from(digit).to_digit(16).unwrap()).unwrap();
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
