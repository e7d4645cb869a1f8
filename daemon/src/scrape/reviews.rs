//! Bearer tokens as far as they are known, and whether the API server is asked about one. Pure: `now` is an
//! argument.
//!
//! Strangers can make up tokens. So there is a limit of what is remembered, refusals are forgotten before
//! what was allowed, and questions about tokens that were allowed before have a share that strangers cannot
//! use up.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use berth_policy::time::later;

/// Time for which an answer about a token is relied on, as long as the kubelet does.
const ALLOWED_FOR: Duration = Duration::from_secs(120);
/// One that was refused is asked about again after it: a role may have come.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// A token that was allowed counts so long as one that is known, from its last answer on.
const REMEMBERED_FOR: Duration = Duration::from_secs(3600);
/// Tokens that are remembered.
const MOST: usize = 64;
/// No token of an API server is longer.
const LONGEST: usize = 8 << 10;
/// Questions at once, and one more for each second after that, for strangers and the others each.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(1);

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may read.
    Allowed,
    /// Nobody has this token.
    Unknown,
    /// Somebody has, who may not.
    Forbidden,
    /// There were too many questions; nobody was asked.
    TooMany,
}

/// Next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It is known.
    Known(Verdict),
    /// The API server is to be asked.
    Ask,
}

/// The tokens that are known.
#[derive(Debug, Default)]
pub(super) struct Reviews {
    known: HashMap<Box<str>, Known>,
    strangers: Share,
    friends: Share,
}

/// Last answer about a token.
#[derive(Clone, Copy, Debug)]
struct Known {
    verdict: Verdict,
    at: Instant,
}

impl Known {
    fn allowed(&self) -> bool {
        self.verdict == Verdict::Allowed
    }

    fn counts(&self, now: Instant) -> bool {
        self.younger(if self.allowed() { ALLOWED_FOR } else { REFUSED_FOR }, now)
    }

    /// Says whether it is of any use.
    fn is_kept(&self, now: Instant) -> bool {
        self.younger(if self.allowed() { REMEMBERED_FOR } else { REFUSED_FOR }, now)
    }

    fn younger(&self, than: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < than
    }
}

impl Reviews {
    /// Says what is to be done about a request with this token.
    pub(super) fn next(&mut self, token: &str, now: Instant) -> Next {
        if token.len() > LONGEST {
            return Next::Known(Verdict::Unknown);
        }
        let known = self.known.get(token).filter(|known| known.is_kept(now));
        if let Some(known) = known.filter(|known| known.counts(now)) {
            return Next::Known(known.verdict);
        }
        let share = if known.is_some_and(Known::allowed) { &mut self.friends } else { &mut self.strangers };
        if share.take(now) { Next::Ask } else { Next::Known(Verdict::TooMany) }
    }

    /// The API server has answered.
    pub(super) fn learned(&mut self, token: &str, verdict: Verdict, now: Instant) {
        self.known.retain(|_, known| known.is_kept(now));
        if self.known.len() >= MOST && !self.known.contains_key(token) {
            // Of the refused ones the oldest; one that was allowed gives way only to another that is.
            let oldest = self.known.iter().min_by_key(|(_, known)| (known.allowed(), known.at));
            let Some((oldest, known)) = oldest.map(|(token, known)| (token.clone(), *known)) else { return };
            if known.allowed() && verdict != Verdict::Allowed {
                return;
            }
            self.known.remove(&oldest);
        }
        self.known.insert(token.into(), Known { verdict, at: now });
    }
}

/// Questions that may be asked.
#[derive(Debug, Default)]
struct Share {
    used: u32,
    since: Option<Instant>,
}

impl Share {
    fn take(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since).as_secs();
        let back = u32::try_from(passed).unwrap_or(u32::MAX).min(self.used);
        self.used -= back;
        self.since = if self.used == 0 { Some(now) } else { Some(later(since, REFILL * back)) };
        let has = self.used < BURST;
        self.used += u32::from(has);
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_answer_counts_for_a_while() {
        let begin = Instant::now();
        for (verdict, lasts) in [(Verdict::Allowed, 120), (Verdict::Forbidden, 30), (Verdict::Unknown, 30)] {
            let mut reviews = Reviews::default();
            assert_eq!(reviews.next("t", begin), Next::Ask);
            reviews.learned("t", verdict, begin);
            assert_eq!(reviews.next("t", begin + seconds(lasts - 1)), Next::Known(verdict));
            assert_eq!(reviews.next("t", begin + seconds(lasts)), Next::Ask, "{verdict:?}");
            assert_eq!(reviews.next("other", begin), Next::Ask);
        }
    }

    #[test]
    fn a_token_that_is_too_long_is_nobodys() {
        let mut reviews = Reviews::default();
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(reviews.next(&long, Instant::now()), Next::Known(Verdict::Unknown));
        assert_eq!(reviews.next(&long[1..], Instant::now()), Next::Ask);
    }

    #[test]
    fn strangers_do_not_shut_out_who_was_let_in() {
        let begin = Instant::now();
        let mut reviews = Reviews::default();
        reviews.learned("scraper", Verdict::Allowed, begin);
        let asked = |reviews: &mut Reviews, now| {
            let tokens = (0..1000).map(|number| format!("made-up-{number}"));
            tokens.filter(|token| reviews.next(token, now) == Next::Ask).count()
        };
        let now = begin + ALLOWED_FOR;
        assert_eq!(asked(&mut reviews, now), 10);
        assert_eq!(reviews.next("stranger", now), Next::Known(Verdict::TooMany));
        assert_eq!(reviews.next("scraper", now), Next::Ask, "it was let in before");
        assert_eq!(asked(&mut reviews, now + seconds(3)), 3);
        assert_eq!(asked(&mut reviews, now + seconds(3)), 0);
        assert_eq!(asked(&mut reviews, now + seconds(1000)), 10, "no more, however long nobody came");
        let forgotten = begin + REMEMBERED_FOR;
        assert_eq!(asked(&mut reviews, forgotten), 10);
        assert_eq!(
            reviews.next("scraper", forgotten),
            Next::Known(Verdict::TooMany),
            "it is a stranger again"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let begin = Instant::now();
        let mut reviews = Reviews::default();
        reviews.learned("scraper", Verdict::Allowed, begin);
        for number in 0..1000 {
            reviews.learned(&format!("made-up-{number}"), Verdict::Unknown, begin);
        }
        assert_eq!(reviews.known.len(), MOST);
        assert_eq!(reviews.next("scraper", begin), Next::Known(Verdict::Allowed));
        for number in 0..1000 {
            reviews.learned(&format!("many-{number}"), Verdict::Allowed, begin + seconds(1));
        }
        assert_eq!(reviews.known.len(), MOST);
        reviews.learned("late", Verdict::Unknown, begin + seconds(2));
        assert!(!reviews.known.contains_key("late"), "a refusal takes nobody's place");
        reviews.learned("much-later", Verdict::Unknown, begin + seconds(4000));
        assert_eq!(reviews.known.len(), 1);
    }
}
