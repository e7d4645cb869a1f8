//! Swaps of twins: the next step from each state of the pod, and swaps played to their ends.

use crate::in_place_update::{Stage, Swap, SwapStep, Twin, TwinView, TwinsView, swap_step};

const EMPTY: &str = "empty";

fn swap(image: &str) -> Swap {
    Swap { image: image.into(), empty_image: EMPTY.into(), version: 0 }
}

fn twin(image: &str, version: u64, has_taken_over: bool) -> TwinView {
    TwinView { image: image.into(), version, has_taken_over, is_taking_over: false }
}

fn pod(first: TwinView, second: TwinView, served: Option<Twin>) -> TwinsView {
    TwinsView { first, second, served }
}

/// A step in short: the stage, the twin that changes, its image, versions and other versions of both.
fn told(step: &SwapStep) -> String {
    let number = |twin: &Twin| if *twin == Twin::First { 1 } else { 2 };
    match step {
        SwapStep::Patch(patch) => {
            let (twin, image) = patch.images.first_key_value().unwrap();
            let stage = match patch.stage {
                Stage::Start => "start",
                Stage::Finish => "finish",
                Stage::GoBack => "back",
            };
            let others: Vec<u64> = patch.other_versions.values().copied().collect();
            let (at, working) = (number(twin), number(&patch.working));
            format!(
                "{stage} {at}={image} version {} others {others:?} working {working}",
                patch.versions[twin]
            )
        }
        SwapStep::Wait(twin) => format!("wait for {}", number(twin)),
        SwapStep::Done(twin) => format!("done {}", number(twin)),
        SwapStep::Refused(why) => format!("refused: {why}"),
    }
}

#[test]
fn the_next_step_of_a_swap() {
    let (first, second) = (Some(Twin::First), Some(Twin::Second));
    let v1 = || twin("v1", 1, true);
    let none = || twin(EMPTY, 0, true);
    let taking_over = || TwinView { is_taking_over: true, ..twin("v2", 2, false) };
    let table = [
        // A fresh pod, its upgrade, and the one after it: as OpenKruise's annotations go.
        ("v1", v1(), none(), None, false, "done 1"),
        ("v2", v1(), none(), first, false, "start 2=v2 version 2 others [2, 1] working 2"),
        ("v2", v1(), twin("v2", 2, false), first, false, "wait for 2"),
        ("v2", v1(), twin("v2", 2, true), first, false, "finish 1=empty version 0 others [2, 0] working 2"),
        ("v2", none(), twin("v2", 2, true), first, false, "done 2"),
        ("v3", none(), twin("v2", 2, true), second, false, "start 1=v3 version 3 others [2, 3] working 1"),
        // It takes too long; or the version of before is wanted again, before it has taken over, and after.
        ("v2", v1(), twin("v2", 2, false), first, true, "back 2=empty version 0 others [0, 1] working 1"),
        ("v2", v1(), twin("v2", 2, true), first, true, "finish 1=empty version 0 others [2, 0] working 2"),
        ("v1", v1(), twin("v2", 2, false), first, false, "back 2=empty version 0 others [0, 1] working 1"),
        ("v1", v1(), taking_over(), first, false, "wait for 2"),
        ("v1", v1(), taking_over(), first, true, "back 2=empty version 0 others [0, 1] working 1"),
        ("v1", v1(), twin("v2", 2, true), first, false, "finish 1=empty version 0 others [2, 0] working 2"),
        // A newer one in the middle: into the same twin, never into the one that served.
        ("v3", v1(), twin("v2", 2, false), first, false, "start 2=v3 version 3 others [3, 1] working 2"),
        ("v3", twin("v2", 2, false), v1(), second, false, "start 1=v3 version 3 others [1, 3] working 1"),
        ("v3", v1(), twin("v2", 2, true), first, false, "finish 1=empty version 0 others [2, 0] working 2"),
        // It may be about to take over, and has its time.
        ("v3", v1(), taking_over(), first, false, "wait for 2"),
        ("v3", v1(), taking_over(), first, true, "start 2=v3 version 3 others [3, 1] working 2"),
        // Nobody serves.
        ("v1", none(), none(), None, false, "start 1=v1 version 1 others [0, 1] working 1"),
        ("v3", v1(), twin("v2", 2, false), None, false, "refused: no twin is empty"),
        (EMPTY, v1(), none(), first, false, "refused: the empty image is no version"),
        // Versions from elsewhere are larger.
        (
            "v2",
            twin("v1", 900, true),
            none(),
            first,
            false,
            "start 2=v2 version 901 others [901, 900] working 2",
        ),
        (
            "v2",
            twin("v1", u64::MAX, true),
            none(),
            first,
            false,
            "start 2=v2 version 18446744073709551615 others [18446744073709551615, 18446744073709551615] working 2",
        ),
    ];
    for (image, one, two, served, gave_up, expect) in table {
        let step = swap_step(&swap(image), &pod(one.clone(), two.clone(), served), gave_up);
        assert!(told(&step).starts_with(expect), "{image} {one:?} {two:?}: {}", told(&step));
    }
    let given = Swap { version: 77, ..swap("v2") };
    let step = swap_step(&given, &pod(v1(), none(), first), false);
    assert_eq!(told(&step), "start 2=v2 version 77 others [77, 1] working 2");
}

/// Any sequence of wanted versions, each at any point of the swap before it: some twin with a version that
/// was Ready is never touched while the other one has not taken over, and it ends with one version and one
/// empty.
#[test]
fn whatever_is_wanted_when_somebody_serves() {
    for seed in 0..2000_u32 {
        let mut random = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        let mut next = |of: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % of
        };
        let mut twins = pod(twin("v1", 1, true), twin(EMPTY, 0, true), None);
        let mut wanted = swap("v1");
        for turn in 0..60 {
            if turn < 40 && next(4) == 0 {
                wanted = swap(&format!("v{}", 1 + next(4)));
            }
            let gave_up = turn < 40 && next(8) == 0;
            if twins.first.image.as_ref() == EMPTY || twins.second.image.as_ref() == EMPTY {
                let serving = if twins.first.image.as_ref() == EMPTY { Twin::Second } else { Twin::First };
                twins.served = Some(serving);
            }
            match swap_step(&wanted, &twins, gave_up) {
                SwapStep::Patch(patch) => {
                    for (twin, image) in patch.images {
                        let (it, other) = match twin {
                            Twin::First => (&mut twins.first, &twins.second),
                            Twin::Second => (&mut twins.second, &twins.first),
                        };
                        let serves = other.has_taken_over && other.image.as_ref() != EMPTY;
                        assert!(serves, "seed {seed}: nobody serves");
                        (it.image, it.version) = (image, patch.versions[&twin]);
                        (it.has_taken_over, it.is_taking_over) = (false, next(2) == 0);
                    }
                }
                SwapStep::Wait(twin) if turn >= 40 || next(2) == 0 => match twin {
                    Twin::First => twins.first.has_taken_over = true,
                    Twin::Second => twins.second.has_taken_over = true,
                },
                SwapStep::Wait(_) | SwapStep::Done(_) => {}
                SwapStep::Refused(why) => panic!("seed {seed}: {why}"),
            }
        }
        assert!(matches!(swap_step(&wanted, &twins, false), SwapStep::Done(_)), "seed {seed}: {twins:?}");
    }
}
