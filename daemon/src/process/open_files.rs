//! Limit of open files: as many as the system lets us have.
//!
//! A connection takes two, and without one left not even the kubelet is accepted. A service of ours has a
//! limit of its own, but in a container the soft limit is often 1,024, and the bound of the data path is
//! higher.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{info, warn};

/// Open files that the data path may need at its bound on connections, and all else besides.
const ENOUGH: u64 = 4096;

/// Raises the soft limit to the hard one. Where that is too little, it is said; berthd runs all the same.
pub fn raise() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map(|()| (soft, hard)));
    match raised {
        Ok((_, hard)) if hard < ENOUGH => {
            warn!(
                limit = hard,
                enough = ENOUGH,
                "Few descriptors: many connections at once would use them up"
            );
        }
        Ok((soft, hard)) if soft < hard => info!(limit = hard, before = soft, "Descriptors raised"),
        Ok(_) => {}
        Err(error) => warn!(%error, "Limit of descriptors not raised"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_hard_one() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard.min(512), hard).unwrap();
        raise();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
