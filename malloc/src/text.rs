//! Returns the pages of the program that only its start needed.
//!
//! Most of a small program's memory is the program itself. The kernel maps 16 pages for each one that is
//! touched, so that a start takes fewer faults; and a start touches code that nothing calls again. Once it is
//! over, all pages of code and constants are unmapped, and those that the program goes on using come back one
//! by one, from the page cache.

use std::{fs, io, ops::Range};

use rustix::mm::{Advice, madvise};

/// Unmaps all pages of the program that nothing has written to; those used again are mapped one at a time.
/// Returns their bytes.
pub fn return_all() -> io::Result<usize> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/smaps")?;
    let mut returned = 0_usize;
    for range in unwritten(&maps, &program.to_string_lossy()) {
        advise(&range, Advice::Random)?;
        advise(&range, Advice::LinuxDontNeed)?;
        returned = returned.saturating_add(range.len());
    }
    Ok(returned)
}

#[expect(
    unsafe_code,
    reason = "advice on pages has no safe form: a wrong range would lose what was written to it"
)]
fn advise(range: &Range<usize>, advice: Advice) -> io::Result<()> {
    // SAFETY: the kernel says that the range is mapped from the program's file, that it cannot be written to,
    // and that none of its pages differs from the file. So what comes back at the next touch is what was
    // there.
    unsafe { madvise(range.start as *mut _, range.len(), advice) }.map_err(io::Error::from)
}

/// Address ranges of a file that `smaps` (proc_pid_smaps(5)) shows as read-only and the same as the file.
/// Relocated constants are read-only too, but differ from it: their `Anonymous` is not 0.
fn unwritten(smaps: &str, file: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        if let Some((range, is_so)) = mapping(line, file) {
            candidate = is_so.then_some(range);
        } else if line.strip_prefix("Anonymous:").is_some_and(|size| size.trim() == "0 kB") {
            found.extend(candidate.take());
        }
    }
    found
}

/// The address range that a line begins, and whether it is of this file and read-only.
fn mapping(line: &str, file: &str) -> Option<(Range<usize>, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let (permissions, rest) = rest.split_once(' ')?;
    // Offset, device and inode, padded; then the path, which may hold spaces.
    let path = rest.splitn(4, ' ').nth(3).map(str::trim_start);
    Some((range, path == Some(file) && permissions.as_bytes().get(1) == Some(&b'-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
56000000-56100000 r--p 00000000 fe:00 42                         /opt/a b/berthd
Rss:                 100 kB
Anonymous:             0 kB
56100000-56300000 r-xp 00100000 fe:00 42                         /opt/a b/berthd
Anonymous:             0 kB
56300000-56310000 r--p 00300000 fe:00 42                         /opt/a b/berthd
Anonymous:            64 kB
56310000-56320000 rw-p 00310000 fe:00 42                         /opt/a b/berthd
Anonymous:             0 kB
7f000000-7f100000 r-xp 00000000 fe:00 43                         /usr/lib/libc.so.6
Anonymous:             0 kB
7f200000-7f300000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7ff00000-7ff01000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
";

    #[test]
    fn ranges_that_nothing_wrote_to() {
        let ranges = unwritten(SMAPS, "/opt/a b/berthd");
        assert_eq!(ranges, [0x5600_0000..0x5610_0000, 0x5610_0000..0x5630_0000]);
        assert!(unwritten(SMAPS, "/opt/a b/berthd (deleted)").is_empty());
        assert!(unwritten("", "/opt/a b/berthd").is_empty());
    }

    #[test]
    fn the_program_runs_on_without_its_pages() {
        let returned = return_all().unwrap();
        assert!(returned > 1 << 18, "{returned} bytes are less than this program has");
        assert_eq!(unwritten(SMAPS, "/opt/a b/berthd").len(), 2);
    }
}
