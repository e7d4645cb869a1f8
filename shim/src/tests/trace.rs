use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn known(sampled: bool) -> Option<TraceParent> {
    let trace = NonZeroU128::new(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736)?;
    Some(TraceParent { trace, span: NonZeroU64::new(0x00f0_67aa_0ba9_02b7)?, sampled })
}

#[test]
fn values() {
    let zeros = |digits: usize| "0".repeat(digits);
    let long = format!("01-{TRACE}-{SPAN}-01-{}", "a".repeat(1 << 20));
    let table: Vec<(String, Option<TraceParent>)> = vec![
        (format!("00-{TRACE}-{SPAN}-01"), known(true)),
        (format!("00-{TRACE}-{SPAN}-00"), known(false)),
        // Flags that are not known are left alone.
        (format!("00-{TRACE}-{SPAN}-ff"), known(true)),
        (format!("00-{TRACE}-{SPAN}-02"), known(false)),
        // A later version has the same beginning.
        (format!("01-{TRACE}-{SPAN}-01"), known(true)),
        (format!("cc-{TRACE}-{SPAN}-01-what-comes"), known(true)),
        (long, known(true)),
        (format!("cc-{TRACE}-{SPAN}-01what-comes"), None),
        (format!("ff-{TRACE}-{SPAN}-01"), None),
        // Lengths.
        (String::new(), None),
        ("00".to_owned(), None),
        (format!("00-{TRACE}-{SPAN}-0"), None),
        (format!("00-{TRACE}-{SPAN}-01-"), None),
        (format!("00-{TRACE}-{SPAN}-011"), None),
        (format!("00-{TRACE}{SPAN}-01--"), None),
        (format!("00-{TRACE}0-{}-01", &SPAN[1..]), None),
        (format!("{}00-{TRACE}-{SPAN}-01", " ".repeat(10_000)), None),
        ("0".repeat(1 << 20), None),
        // Identities that are none.
        (format!("00-{}-{SPAN}-01", zeros(32)), None),
        (format!("00-{TRACE}-{}-01", zeros(16)), None),
        // Letters.
        (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
        (format!("00-{TRACE}-{}-01", SPAN.to_uppercase()), None),
        (format!("00-{TRACE}-{SPAN}-0A"), None),
        (format!("0x-{TRACE}-{SPAN}-01"), None),
        (format!("00-{}-{SPAN}-01", TRACE.replace('4', "g")), None),
        (format!("00-+{}-{SPAN}-01", &TRACE[1..]), None),
        (format!("00_{TRACE}_{SPAN}_01"), None),
        (format!("00-{TRACE}-{SPAN}-01\0"), None),
        (format!("00-{}ä-{SPAN}-01", &TRACE[2..]), None),
        (TRACE.to_owned(), None),
    ];
    for (text, expect) in table {
        let shown: String = text.chars().take(80).collect();
        assert_eq!(TraceParent::parse(text.as_bytes()), expect, "{shown:?}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    for sampled in [true, false] {
        let written = known(sampled).unwrap();
        assert_eq!(TraceParent::parse(written.header().as_bytes()), Some(written));
    }
}

#[test]
fn one_header_counts_and_more_do_not() {
    let value = || HeaderValue::try_from(format!("00-{TRACE}-{SPAN}-01")).unwrap();
    for (times, expect) in [(0, None), (1, known(true)), (2, None), (10_000, None)] {
        let mut headers = HeaderMap::new();
        for _ in 0..times {
            headers.append(TRACEPARENT, value());
        }
        assert_eq!(TraceParent::of(&headers), expect, "{times}");
    }
    let opaque = HeaderValue::from_bytes(&[0xff; LENGTH]).unwrap();
    assert_eq!(TraceParent::of(&HeaderMap::from_iter([(TRACEPARENT.parse().unwrap(), opaque)])), None);
}
