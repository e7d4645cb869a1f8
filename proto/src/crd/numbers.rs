//! Numbers as an author lists them: single ones and ranges, `[5, "7", "10-19"]`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The largest number that is listed.
const MOST: i64 = i32::MAX as i64;

/// Set of numbers, kept as ranges: one of a billion numbers is as small as any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The first and the last one of each range, ascending; between two ranges are other numbers.
    ranges: Vec<(i64, i64)>,
}

impl Numbers {
    /// Reads a list. An entry that is neither a number nor a range is left out: the definition refuses it.
    pub fn of<'a>(list: impl IntoIterator<Item = &'a IntOrString>) -> Self {
        list.into_iter().filter_map(range).collect()
    }

    /// Tells whether the number is one of them.
    pub fn contains(&self, number: i64) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < number);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= number)
    }

    /// Counts those from one number to before another one.
    pub fn count(&self, from: i64, before: i64) -> i64 {
        let end = before.saturating_sub(1);
        let within = |(first, last): &(i64, i64)| {
            let (first, last) = ((*first).max(from), (*last).min(end));
            last.saturating_sub(first).saturating_add(1).max(0)
        };
        self.ranges.iter().map(within).fold(0, i64::saturating_add)
    }

    /// Returns the numbers from this one on that are none of them, ascending.
    pub fn others(&self, from: i64) -> impl Iterator<Item = i64> {
        let (mut ranges, mut next) = (self.ranges.iter().peekable(), from);
        std::iter::from_fn(move || {
            while let Some((_, last)) = ranges.next_if(|(first, _)| *first <= next) {
                next = next.max(last.saturating_add(1));
            }
            let other = next;
            next = next.checked_add(1)?;
            Some(other)
        })
    }
}

/// From ranges in any order.
impl FromIterator<(i64, i64)> for Numbers {
    fn from_iter<T: IntoIterator<Item = (i64, i64)>>(given: T) -> Self {
        let mut given: Vec<(i64, i64)> = given.into_iter().collect();
        given.sort_unstable();
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for (first, last) in given {
            match ranges.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => ranges.push((first, last)),
            }
        }
        Self { ranges }
    }
}

/// Reads an entry of a list: the first and the last number.
fn range(entry: &IntOrString) -> Option<(i64, i64)> {
    let (first, last) = match entry {
        IntOrString::Int(number) => (i64::from(*number), i64::from(*number)),
        IntOrString::String(text) => match text.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(text)?, number(text)?),
        },
    };
    (0 <= first && first <= last && last <= MOST).then_some((first, last))
}

fn number(digits: &str) -> Option<i64> {
    let is_plain = digits.len() <= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn numbers(list: Value) -> Numbers {
        Numbers::of(&serde_json::from_value::<Vec<IntOrString>>(list).unwrap())
    }

    /// Each row: the list, and the first others from 0 and from 3.
    #[test]
    fn lists_are_read() {
        for (list, from_0, from_3) in [
            (json!([]), [0, 1, 2, 3], [3, 4]),
            (json!([1, 3]), [0, 2, 4, 5], [4, 5]),
            (json!(["1-3", 5]), [0, 4, 6, 7], [4, 6]),
            (json!(["5", 3, "1-2"]), [0, 4, 6, 7], [4, 6]),
            (json!([5, "1-3", "2-5", 1, 1]), [0, 6, 7, 8], [6, 7]),
            (json!(["0-0", "0-9"]), [10, 11, 12, 13], [10, 11]),
            (
                json!(["0-2147483647"]),
                [2147483648, 2147483649, 2147483650, 2147483651],
                [2147483648, 2147483649],
            ),
            // What is none of them is left out.
            (
                json!([
                    -1,
                    "-1",
                    "3-1",
                    "a",
                    "",
                    "-",
                    "1-",
                    "1-2-3",
                    "+1",
                    " 1",
                    "1,2",
                    "99999999999",
                    "0-2147483648",
                    1
                ]),
                [0, 2, 3, 4],
                [3, 4],
            ),
        ] {
            let numbers = numbers(list.clone());
            assert_eq!(numbers.others(0).take(4).collect::<Vec<_>>(), from_0, "{list}");
            assert_eq!(numbers.others(3).take(2).collect::<Vec<_>>(), from_3, "{list}");
            assert!(numbers.others(0).take(4).all(|other| !numbers.contains(other)), "{list}");
        }
    }

    #[test]
    fn those_that_are_listed_are_counted() {
        let numbers = numbers(json!(["1-3", 5, "1000000000-2000000000"]));
        for (from, before, count) in [
            (0, 0, 0),
            (0, 1, 0),
            (0, 2, 1),
            (0, 9, 4),
            (2, 6, 3),
            (4, 5, 0),
            (9, 3, 0),
            (0, i64::MAX, 1_000_000_005),
            (1_500_000_000, 1_500_000_001, 1),
            (i64::MIN, i64::MAX, 1_000_000_005),
        ] {
            assert_eq!(numbers.count(from, before), count, "{from} {before}");
        }
        assert!(numbers.contains(2) && numbers.contains(1_234_567_890) && !numbers.contains(4));
        assert!(!numbers.contains(-1) && !numbers.contains(i64::MAX));
    }

    #[test]
    fn the_end_of_numbers_is_an_end() {
        assert_eq!(numbers(json!([])).others(i64::MAX - 1).count(), 1);
    }
}
