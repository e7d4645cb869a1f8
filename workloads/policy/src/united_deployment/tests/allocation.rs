//! Pods of each subset, as formulas.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use rstest::rstest;

use super::super::allocation::{Claim, Replicas, Share, allocate};

/// `name`, `name=number` or `name=share`, or `name=least..most` with one of them or both, each with
/// `:current` behind it where it has pods.
fn claim(text: &str) -> Claim<'_> {
    let (text, current) = text.split_once(':').unwrap_or((text, "0"));
    let (name, share) = text.split_once('=').map_or((text, None), |(name, share)| (name, Some(share)));
    let parsed = |share: &str| {
        let given = share.parse().map_or_else(|_| IntOrString::String(share.to_owned()), IntOrString::Int);
        Share::parse("f", &given).unwrap()
    };
    let asked = match share.map(|share| share.split_once("..").ok_or(share)) {
        None => Replicas::default(),
        Some(Err(share)) => Replicas { share: Some(parsed(share)), ..Replicas::default() },
        Some(Ok(bounds)) => {
            let [least, most] = [bounds.0, bounds.1].map(|one| (!one.is_empty()).then(|| parsed(one)));
            Replicas { least, most, share: None }
        }
    };
    Claim { name, asked, current: current.parse().unwrap() }
}

#[rstest]
#[case::new(5, "a b c", "a1 b2 c2")]
#[case::a_share_and_a_move(10, "a=20% b:3 c:5", "a2 b4 c4")]
#[case::more_for_the_larger(9, "a=2 b:5 c:3", "a2 b4 c3")]
#[case::a_share_of_nothing(3, "a=10% b", "a0 b3")]
#[case::nothing(0, "a b", "a0 b0")]
#[case::nothing_of_a_share(0, "a=50% b", "a0 b0")]
#[case::one(1, "a b c", "a0 b0 c1")]
#[case::all_given(6, "a=1 b=50% c=2", "a1 b3 c2")]
#[case::a_half_is_rounded_up(5, "a=50% b", "a3 b2")]
#[case::all_of_it(5, "a=100% b", "a5 b0")]
#[case::it_stays_as_it_is(5, "a:1 b:2 c:2", "a1 b2 c2")]
#[case::one_more_goes_to_a_larger_one(6, "a:1 b:2 c:2", "a2 b2 c2")]
#[case::one_less_is_taken_from_a_smaller_one(4, "a:2 b:2 c:1", "a1 b2 c1")]
#[case::by_name_where_all_are_equal(7, "b:2 a:2", "b4 a3")]
#[case::the_largest(1_000_000, "a=33% b", "a330000 b670000")]
#[case::no_subset(0, "", "")]
#[case::in_order_all_have_the_least(3, "a=1..2 b=1..2 c=1..", "a1 b1 c1")]
#[case::in_order_the_last_one_takes_the_rest(7, "a=1..2 b=1..2 c=1..", "a2 b2 c3")]
#[case::in_order_the_first_one_has_one_more(4, "a=1..2 b=1..2 c=1..", "a2 b1 c1")]
#[case::in_order_less_than_the_least(1, "a=1..2 b=1..2 c=1..", "a1 b0 c0")]
#[case::in_order_what_they_have_counts_not(1, "a=1..2:0 b=1..2:0 c=1..:7", "a1 b0 c0")]
#[case::in_order_nothing(0, "a=1..2 b", "a0 b0")]
#[case::in_order_the_largest_alone(5, "a=..2 b=..1 c", "a2 b1 c2")]
#[case::in_order_the_least_alone(5, "a=1.. b=2.. c", "a3 b2 c0")]
#[case::in_order_a_share(10, "a=10%..30% b=..50% c=1..", "a3 b5 c2")]
#[case::in_order_shares_beyond_all(10, "a=60%.. b=60%..", "a6 b4")]
#[case::in_order_all_have_a_largest_one(3, "a=..2 b=..1", "a2 b1")]
#[case::in_order_none_at_all(4, "a=0..0 b", "a0 b4")]
fn pods_of_subsets(#[case] replicas: i64, #[case] given: &str, #[case] expected: &str) {
    let claims: Vec<Claim<'_>> = given.split_whitespace().map(claim).collect();
    let all = allocate(replicas, &claims).unwrap();
    let found: Vec<String> = claims.iter().map(|one| format!("{}{}", one.name, all[one.name])).collect();
    assert_eq!(found.join(" "), expected);
}

#[rstest]
#[case::shares_that_are_too_much(5, "a=50% b=50%", "have 6 replicas together, more than the 5")]
#[case::numbers_that_are_too_much(3, "a=4 b", "have 4 replicas together, more than the 3")]
#[case::shares_that_are_too_little(10, "a=33% b=33% c=33%", "have 9 replicas together, less than the 10")]
#[case::numbers_that_are_too_little(3, "a=1 b=1", "have 2 replicas together, less than the 3")]
#[case::no_subset(1, "", "have 0 replicas together, less than the 1")]
#[case::no_place(4, "a=..2 b=1..1", "and 1 of the 4 of spec.replicas have no place")]
#[case::no_place_of_shares(10, "a=..50% b=..40%", "and 1 of the 10 of spec.replicas have no place")]
#[case::the_largest(1, "a=2147483647 b=2147483647", "have 4294967294 replicas together, more than the 1")]
fn what_does_not_add_up(#[case] replicas: i64, #[case] given: &str, #[case] words: &str) {
    let claims: Vec<Claim<'_>> = given.split_whitespace().map(claim).collect();
    let fault = allocate(replicas, &claims).unwrap_err();
    assert_eq!(fault.field, "spec.topology.subsets");
    assert!(fault.why.contains(words) && fault.why.contains(": "), "{fault}");
}

/// OpenKruise's table says 33 %, 33 % and 34 % of 10 are refused, being 9: by the same rounding they are 3, 3
/// and 3.
#[test]
fn thirds_of_ten_are_nine() {
    let claims = ["a=33%", "b=33%", "c=34%"].map(claim);
    let fault = allocate(10, &claims).unwrap_err();
    assert!(fault.why.contains("have 9 replicas"), "{fault}");
}

#[rstest]
#[case(IntOrString::Int(-1))]
#[case(IntOrString::String("5".to_owned()))]
#[case(IntOrString::String("101%".to_owned()))]
#[case(IntOrString::String("-5%".to_owned()))]
#[case(IntOrString::String("+5%".to_owned()))]
#[case(IntOrString::String("1.5%".to_owned()))]
#[case(IntOrString::String("1e9%".to_owned()))]
#[case(IntOrString::String(" 5 %".to_owned()))]
#[case(IntOrString::String("%".to_owned()))]
#[case(IntOrString::String(String::new()))]
#[case(IntOrString::String("99999999999999999999%".to_owned()))]
fn what_is_neither_a_number_nor_a_share_is_named(#[case] given: IntOrString) {
    let fault = Share::parse("spec.topology.subsets[0].replicas", &given).unwrap_err().to_string();
    assert!(
        fault.starts_with("spec.topology.subsets[0].replicas is ") && fault.contains("0% to 100%"),
        "{fault}"
    );
}

proptest! {
    /// All pods are somewhere, those that share the rest differ by one at most, and what was is kept.
    #[test]
    fn the_sum_is_right(
        replicas in 0_i64..=1_000_000,
        fixed in 0_i64..40,
        current in proptest::collection::vec(0_i64..1_000_000, 1..40),
    ) {
        let names: Vec<String> = (0..current.len()).map(|at| format!("s{at}")).collect();
        let mut claims: Vec<Claim<'_>> = names
            .iter()
            .zip(&current)
            .map(|(name, current)| Claim { name, asked: Replicas::default(), current: *current })
            .collect();
        let asked = Replicas { share: Some(Share::Number(fixed.min(replicas))), ..Replicas::default() };
        claims.push(Claim { name: "fixed", asked, current: 0 });
        let first = allocate(replicas, &claims).unwrap();
        prop_assert_eq!(first.values().sum::<i64>(), replicas);
        let open = names.iter().map(|name| first[name]);
        prop_assert!(open.clone().max().unwrap() - open.min().unwrap() <= 1);
        for claim in &mut claims {
            claim.current = first[claim.name];
        }
        prop_assert_eq!(allocate(replicas, &claims).unwrap(), first);
    }

    /// All pods are somewhere, none has more than its largest number, one that has more than its least one
    /// leaves none short of it, and none before one beyond its least number has room left.
    #[test]
    fn the_order_counts(
        replicas in 0_i64..200,
        bounds in proptest::collection::vec((0_i64..40, 0_i64..40), 1..12),
    ) {
        let names: Vec<String> = (0..=bounds.len()).map(|at| format!("s{at}")).collect();
        let mut claims: Vec<Claim<'_>> = names
            .iter()
            .zip(&bounds)
            .map(|(name, (least, more))| {
                let most = Some(Share::Number(least + more));
                Claim {
                    name,
                    asked: Replicas { share: None, least: Some(Share::Number(*least)), most },
                    current: 0,
                }
            })
            .collect();
        claims.push(Claim { name: &names[bounds.len()], asked: Replicas::default(), current: 0 });
        let all = allocate(replicas, &claims).unwrap();
        prop_assert_eq!(all.values().sum::<i64>(), replicas);
        let number = |at: usize| all[&names[at]];
        let beyond = (0..=bounds.len()).rev().find(|at| number(*at) > bounds.get(*at).map_or(0, |one| one.0));
        for (at, (least, more)) in bounds.iter().enumerate() {
            prop_assert!(number(at) <= least + more);
            prop_assert!(beyond.is_none() || number(at) >= *least);
            prop_assert!(beyond.is_none_or(|beyond| at >= beyond) || number(at) == least + more);
        }
    }
}
