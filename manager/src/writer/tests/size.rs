//! Objects that are too large, and writes that are tried again while others wait.

use super::*;

/// Whatever the API server calls it, it is not asked twice.
#[rstest]
#[case::of_the_api_server(413, "Request entity too large: limit is 3145728")]
#[case::of_its_client_of_etcd(
    500,
    "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2396745 vs. 2097152)"
)]
#[case::of_etcd(500, "etcdserver: request is too large")]
#[case::of_validation(422, "status.message: Too long: may not be more than 32768 bytes")]
#[case::of_a_list(422, "status.desiredImages: Too many: 600: must have at most 512 items")]
#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_is_not_tried_again(#[case] code: u16, #[case] message: &'static str) {
    let bench = bench_of(move |_, _| (code, message.to_owned()));
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("too_large", 1).await;
    sleep(Duration::from_secs(1800)).await;
    assert_eq!((bench.seen().len(), bench.count("retried")), (1, 0));
    bench.writer.submit(patch("r", "2")).unwrap();
    bench.until("too_large", 2).await;
    assert_eq!(bench.seen().len(), 2, "it has changed");
}

/// Smaller than what is sent, larger than what can be stored.
#[tokio::test(start_paused = true)]
async fn what_is_too_large_for_us_is_not_sent() {
    let bench = bench(|_| 200);
    for (size, outcome) in [(MOST_BYTES - 2048, "written"), (MOST_BYTES, "too_large")] {
        let entry = DesiredImage { uid: "job".to_owned(), image: "a".repeat(size), ..Default::default() };
        let Write::Node(mut order) = node("n") else { unreachable!() };
        order.wishes =
            vec![Wish { content: entry.into(), since: None, seal: Seal::Present(Default::default()) }];
        bench.writer.submit(Write::Node(order)).unwrap();
        bench.until(outcome, 1).await;
    }
    assert_eq!(bench.seen().len(), 1);
}

/// As many objects as there are permits fail for ever: another one is written as if they were not there.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_tried_again_holds_no_permit() {
    let bench = bench_of(|_, uri| (if uri.contains("/stuck") { 503 } else { 200 }, String::new()));
    for number in 0..AT_ONCE {
        bench.writer.submit(patch_in(&format!("n{number}"), &format!("stuck-{number}"), "1")).unwrap();
    }
    bench.until("retried", AT_ONCE * 4).await;
    let begun = Instant::now();
    bench.writer.submit(patch_in("shop", "good", "1")).unwrap();
    bench.until("written", 1).await;
    assert!(begun.elapsed() < PAUSES[0], "{:?}", begun.elapsed());
}

/// The newer one does not wait for the pause of the one before it.
#[tokio::test(start_paused = true)]
async fn a_newer_write_is_tried_at_once() {
    let bench = bench(|number| if number < 5 { 503 } else { 200 });
    bench.writer.submit(patch("r", "1")).unwrap();
    bench.until("retried", 5).await;
    let begun = Instant::now();
    bench.writer.submit(patch("r", "2")).unwrap();
    bench.until("written", 1).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}
