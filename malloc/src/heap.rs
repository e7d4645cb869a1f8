//! Returns the pages of the heap in which nothing lies any more.
//!
//! The allocator keeps what is freed in the middle of the heap: a list of thirty thousand pods is read
//! page by page, and between what is kept of it lies what is not. The allocator uses that room again, but
//! not before the next list, which may never come.

/// Unmaps free pages of the whole heap; those used again come back empty, one by one. Says whether there were
/// any. The allocator is locked for as long as it looks through what is free.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the C library's own function, which the standard library does not offer")]
pub(crate) fn return_free() -> bool {
    // SAFETY: it has no condition, and takes the allocator's locks by itself.
    unsafe { libc::malloc_trim(0) != 0 }
}

/// Other C libraries return them by themselves, or not at all.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn return_free() -> bool {
    false
}

#[cfg(test)]
mod tests {
    #[cfg(target_env = "gnu")]
    use super::*;

    /// Every hundredth of many small pieces is kept, as of a list: they hold the end of the heap, and with it
    /// all below.
    #[test]
    #[cfg(target_env = "gnu")]
    fn room_between_what_is_kept_is_returned() {
        let mut pieces: Vec<Option<Box<[u8; 1000]>>> =
            (0..50_000).map(|_| Some(Box::new([1; 1000]))).collect();
        for (number, piece) in pieces.iter_mut().enumerate() {
            if number % 100 != 99 {
                *piece = None;
            }
        }
        let before = crate::resident().unwrap();
        assert!(return_free());
        let after = crate::resident().unwrap();
        assert!(after + (30 << 20) < before, "{before} bytes before, {after} after");
        assert!(pieces.iter().flatten().all(|piece| piece.iter().all(|byte| *byte == 1)));
    }
}
