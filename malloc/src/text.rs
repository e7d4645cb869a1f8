//! Returns the pages of the program and its libraries that only its start needed.
//!
//! Most of a small program's memory is the program itself. The kernel maps 16 pages for each one that is
//! touched, so that a start takes fewer faults; and a start touches code that nothing calls again. Once it is
//! over, all pages of code and constants are unmapped, and those that the program goes on using come back
//! from the page cache. The kernel maps no page beyond the mapping that is touched, so the mappings are cut
//! into pieces of four pages. The C library is half as large as all the rest of a small program.

use std::{fs, io, ops::Range, path::Path, sync::OnceLock};

use rustix::mm::{Advice, madvise};

/// Libraries that the program is linked with, so that they stay where they are: what is mapped for a while
/// only might have made room for the heap before the advice is given.
const LIBRARIES: [&str; 3] = ["libc.so.6", "libgcc_s.so.1", "libm.so.6"];

/// Bytes that come back together: each piece takes some 200 bytes of the kernel's for its mapping. Where a
/// page is larger, that is it.
const PIECE: usize = 4 << 12;

/// Ranges that may be unmapped. They stay where they are for as long as the program runs; once they are cut
/// into pieces, the kernel takes 20 ms to tell of all of them.
static RANGES: OnceLock<Vec<Range<usize>>> = OnceLock::new();

/// Unmaps all pages of the program and its libraries that nothing has written to; those used again are mapped
/// piece by piece. Returns their bytes.
pub(crate) fn return_all() -> io::Result<usize> {
    let ranges = match RANGES.get() {
        Some(known) => known,
        None => {
            let found = cut()?;
            RANGES.get_or_init(|| found)
        }
    };
    ranges.iter().try_for_each(|range| advise(range, Advice::LinuxDontNeed))?;
    Ok(ranges.iter().fold(0, |all, range| all.saturating_add(range.len())))
}

/// Finds the ranges, and cuts them into pieces.
fn cut() -> io::Result<Vec<Range<usize>>> {
    let program = fs::read_link("/proc/self/exe")?;
    let ranges = unwritten(&fs::read_to_string("/proc/self/smaps")?, &program);
    let piece = PIECE.max(rustix::param::page_size());
    ranges
        .iter()
        .flat_map(|range| pieces(range, piece))
        .try_for_each(|(piece, advice)| advise(&piece, advice))?;
    Ok(ranges)
}

#[expect(
    unsafe_code,
    reason = "advice on pages has no safe form: a wrong range would lose what was written to it"
)]
fn advise(range: &Range<usize>, advice: Advice) -> io::Result<()> {
    // SAFETY: the kernel has said that the range is mapped from the program's file or that of a library that
    // stays, that it cannot be written to, and that none of its pages differs from the file; nothing makes it
    // writable later. So what comes back at the next touch is what was there, but for a debugger's marks.
    unsafe { madvise(range.start as *mut _, range.len(), advice) }.map_err(io::Error::from)
}

/// Pieces of a range and advice on each. Neighbours differ in it, so that the kernel keeps them apart; the
/// same address has the same advice each time.
fn pieces(range: &Range<usize>, bytes: usize) -> impl Iterator<Item = (Range<usize>, Advice)> {
    let (start, end, bytes) = (range.start, range.end, bytes.max(1));
    (start / bytes..end.div_ceil(bytes)).map(move |number| {
        let from = number.saturating_mul(bytes);
        let piece = from.max(start)..from.saturating_add(bytes).min(end);
        (piece, if number % 2 == 0 { Advice::Random } else { Advice::Normal })
    })
}

/// Address ranges of the program and its libraries that `smaps` (proc_pid_smaps(5)) shows as private,
/// read-only and the same as the file. Relocated constants are read-only too, but differ from it: their
/// `Anonymous` is not 0, or their `Swap`, which comes after it.
fn unwritten(smaps: &str, program: &Path) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        if let Some((range, is_so)) = mapping(line, program) {
            candidate = is_so.then_some(range);
        } else if let Some(size) = line.strip_prefix("Anonymous:") {
            candidate = candidate.filter(|_| size.trim() == "0 kB");
        } else if line.strip_prefix("Swap:").is_some_and(|size| size.trim() == "0 kB") {
            found.extend(candidate.take());
        }
    }
    found
}

/// The address range that a line begins, and whether it is of one of these files, private and read-only.
fn mapping(line: &str, program: &Path) -> Option<(Range<usize>, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let (permissions, rest) = rest.split_once(' ')?;
    // Offset, device and inode, padded; then the path, which may hold spaces.
    let path = rest.splitn(4, ' ').nth(3).map(str::trim_start);
    let stays = path.map(Path::new).is_some_and(|path| {
        path == program
            || path.file_name().is_some_and(|name| LIBRARIES.iter().any(|library| *library == name))
    });
    Some((range, stays && matches!(permissions.as_bytes(), [_, b'-', _, b'p'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
56000000-56100000 r--p 00000000 fe:00 42                         /opt/a b/berthd
Rss:                 100 kB
Anonymous:             0 kB
Swap:                  0 kB
56100000-56300000 r-xp 00100000 fe:00 42                         /opt/a b/berthd
Anonymous:             0 kB
Swap:                  0 kB
56300000-56308000 r--p 00300000 fe:00 42                         /opt/a b/berthd
Anonymous:            32 kB
Swap:                  0 kB
56308000-56310000 r--p 00308000 fe:00 42                         /opt/a b/berthd
Anonymous:             0 kB
Swap:                 32 kB
56310000-56320000 rw-p 00310000 fe:00 42                         /opt/a b/berthd
Anonymous:             0 kB
Swap:                  0 kB
7f000000-7f100000 r-xp 00000000 fe:00 43                         /usr/lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
7f100000-7f180000 r--p 00000000 fe:00 44                         /etc/ld.so.cache
Anonymous:             0 kB
Swap:                  0 kB
7f180000-7f190000 r--s 00000000 fe:00 43                         /usr/lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
7f200000-7f300000 rw-p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7ff00000-7ff01000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
Swap:                  0 kB
";

    #[test]
    fn ranges_that_nothing_wrote_to() {
        let ranges = unwritten(SMAPS, Path::new("/opt/a b/berthd"));
        let library = 0x7f00_0000..0x7f10_0000;
        assert_eq!(ranges, [0x5600_0000..0x5610_0000, 0x5610_0000..0x5630_0000, library]);
        assert!(unwritten("", Path::new("/opt/a b/berthd")).is_empty());
    }

    #[test]
    fn neighbours_differ_in_advice() {
        let cut = |range: Range<usize>| -> Vec<_> {
            let told = |(piece, advice)| (piece, matches!(advice, Advice::Random));
            pieces(&range, PIECE).map(told).collect()
        };
        assert_eq!(
            cut(0x1000..0x9000),
            [(0x1000..0x4000, true), (0x4000..0x8000, false), (0x8000..0x9000, true)]
        );
        assert_eq!(cut(0x4000..0x8000), [(0x4000..0x8000, false)], "a piece stays as it is");
        assert_eq!(cut(0x4000..0x4000), []);
        assert_eq!(cut(usize::MAX - 1..usize::MAX).len(), 1);
    }

    #[test]
    fn the_program_runs_on_without_its_pages() {
        let returned = return_all().unwrap();
        assert!(returned > 1 << 18, "{returned} bytes are less than this program has");
        assert_eq!(return_all().unwrap(), returned, "the same again");
        assert_eq!(unwritten(SMAPS, Path::new("/opt/a b/berthd")).len(), 3);
    }
}
