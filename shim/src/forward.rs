//! A call on its way to the runtime and back: bytes only, and every way it can end.
//!
//! | What the runtime does | What the client sees |
//! |---|---|
//! | cannot be reached | UNAVAILABLE at once, naming the endpoint and the system's error |
//! | answers | the same headers, frames and trailers; a few bytes more where the gate asks for an [`Exception`] |
//! | resets the stream | a reset with the same code |
//! | did not process it, and says so | nothing: it is sent once more over a fresh connection |
//! | its connection breaks | UNAVAILABLE, after what was handed on already |
//! | streams without end, and we go | UNAVAILABLE: the client asks our successor |
//!
//! Nothing that may have been processed is ever sent again.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::{Reason, SendStream, client::ResponseFuture, server::SendResponse};
use http::{Request, Response};
use tracing::debug;

use crate::{
    download::{Download, DownloadEnd, Tap},
    exceptions::Exception,
    frames::framed,
    metrics::Metrics,
    status::Status,
    upload::Upload,
    upstream::Upstream,
};

/// How an attempt to get an answer ended.
enum Attempt {
    /// It begins with these headers. The request may still be on its way up.
    Answered(Response<h2::RecvStream>, SendStream<Bytes>),
    /// The runtime never acted on this request.
    Unprocessed,
    /// The runtime reset the stream.
    Reset(Reason),
    /// The answer is ours to give.
    Failed(Status),
    /// The client does not wait any longer.
    ClientGone,
}

/// Failure of a stream, as far as it tells about its call.
enum Failure {
    Unprocessed,
    Reset(Reason),
    Lost,
}

/// Sends the call to the runtime and its answer, with the exception if there is one, to the client.
pub(crate) async fn forward(
    upstream: &Upstream,
    head: Request<()>,
    mut upload: Upload,
    exception: Option<Box<Exception>>,
    mut respond: SendResponse<Bytes>,
    tap: &mut impl Tap,
    metrics: &Metrics,
) {
    let again = head.clone();
    let mut attempt = attempt(upstream, head, &mut upload, &mut respond, tap).await;
    if matches!(attempt, Attempt::Unprocessed) && upload.rewind() {
        debug!("Call not processed by the runtime, sent again");
        metrics.replayed();
        attempt = self::attempt(upstream, again, &mut upload, &mut respond, tap).await;
    } else {
        // The answer may take for ever, and headers be large.
        drop(again);
    }
    match attempt {
        Attempt::Answered(response, send) => {
            let mut download = Download::new(exception.or_else(|| tap.begun()));
            answer(upstream, response, send, upload, respond, &mut download, tap).await;
            if let Some(exception) = download.exception() {
                exception.count(metrics);
            }
        }
        Attempt::Failed(status) => {
            tap.end(None);
            refuse(respond, status);
        }
        // The client's own library sends an unprocessed call again.
        Attempt::Unprocessed => respond.send_reset(Reason::REFUSED_STREAM),
        Attempt::Reset(reason) => {
            tap.end(None);
            respond.send_reset(reason);
        }
        Attempt::ClientGone => {}
    }
}

/// Answers the call without the runtime.
pub(crate) fn refuse(mut respond: SendResponse<Bytes>, status: Status) {
    // An error means that the client is gone.
    let _ = respond.send_response(status.into_response(), true);
}

/// Answers the call with this message, without the runtime.
pub(crate) fn succeed(mut respond: SendResponse<Bytes>, message: &[u8]) {
    // Errors mean that the client is gone.
    if let Ok(mut client) = respond.send_response(Status::beginning(), false) {
        let _ = client.send_data(framed(message), false);
        let _ = client.send_trailers(Status::success());
    }
}

async fn attempt(
    upstream: &Upstream,
    mut head: Request<()>,
    upload: &mut Upload,
    respond: &mut SendResponse<Bytes>,
    tap: &mut impl Tap,
) -> Attempt {
    let sender = tokio::select! {
        biased;
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return Attempt::ClientGone,
        sender = upstream.sender() => sender,
    };
    let mut sender = match sender {
        Ok(sender) => sender,
        Err(error) => return Attempt::Failed(Status::from(&error)),
    };
    complete_uri(&mut head);
    let (mut response, mut send) = match sender.send_request(head, upload.is_empty()) {
        Ok(sent) => sent,
        Err(error) => {
            debug!(%error, "Call not sent");
            return Attempt::Unprocessed;
        }
    };
    let ended = poll_fn(|cx| poll_answer(cx, &mut response, &mut send, upload, respond, tap)).await;
    match ended {
        Answer::Begun(response) => {
            upload.forget();
            Attempt::Answered(response, send)
        }
        Answer::Failed(error) => match failure(&error) {
            Failure::Unprocessed => Attempt::Unprocessed,
            Failure::Reset(reason) => Attempt::Reset(reason),
            Failure::Lost => Attempt::Failed(Status::connection_lost(upstream.endpoint(), &error)),
        },
        Answer::Cut => {
            send.send_reset(Reason::CANCEL);
            Attempt::Failed(Status::restarting())
        }
        Answer::ClientGone(reason) => {
            send.send_reset(reason);
            Attempt::ClientGone
        }
    }
}

/// How the wait for the headers of the answer ended.
enum Answer {
    Begun(Response<h2::RecvStream>),
    Failed(h2::Error),
    Cut,
    ClientGone(Reason),
}

fn poll_answer(
    cx: &mut Context<'_>,
    response: &mut ResponseFuture,
    send: &mut SendStream<Bytes>,
    upload: &mut Upload,
    respond: &mut SendResponse<Bytes>,
    tap: &mut impl Tap,
) -> Poll<Answer> {
    // First, so that nothing goes up for a client that is gone.
    if let Poll::Ready(reset) = respond.poll_reset(cx) {
        return Poll::Ready(Answer::ClientGone(reset.unwrap_or(Reason::CANCEL)));
    }
    if let Poll::Ready(error) = upload.poll(cx, send) {
        return Poll::Ready(Answer::ClientGone(error.reason().unwrap_or(Reason::CANCEL)));
    }
    if tap.poll_cut(cx).is_ready() {
        return Poll::Ready(Answer::Cut);
    }
    std::pin::Pin::new(response).poll(cx).map(|answer| answer.map_or_else(Answer::Failed, Answer::Begun))
}

/// Hands the answer on while the rest of the request goes up.
async fn answer(
    upstream: &Upstream,
    response: Response<h2::RecvStream>,
    mut send: SendStream<Bytes>,
    mut upload: Upload,
    mut respond: SendResponse<Bytes>,
    download: &mut Download,
    tap: &mut impl Tap,
) {
    let (mut head, mut body) = response.into_parts();
    if download.exception().is_some() {
        // gRPC does not use it, and it may be wrong from here on.
        head.headers.remove(http::header::CONTENT_LENGTH);
    }
    let whole = body.is_end_stream();
    if whole {
        // "Trailers-only": the headers are the trailers.
        tap.end(Some(&head.headers));
    }
    let Ok(mut client) = respond.send_response(Response::from_parts(head, ()), whole) else { return };
    if whole {
        return;
    }
    let ended = poll_fn(|cx| {
        if let Poll::Ready(reset) = client.poll_reset(cx) {
            return Poll::Ready(Err(reset.unwrap_or(Reason::CANCEL)));
        }
        if let Poll::Ready(error) = upload.poll(cx, &mut send) {
            return Poll::Ready(Err(error.reason().unwrap_or(Reason::CANCEL)));
        }
        if tap.poll_cut(cx).is_ready() {
            return Poll::Ready(Ok(DownloadEnd::Cut));
        }
        download.poll(cx, &mut body, &mut client, tap).map(Ok)
    });
    match ended.await {
        Ok(DownloadEnd::Finished) => {}
        Ok(DownloadEnd::RuntimeFailed(error)) => {
            tap.end(None);
            match failure(&error) {
                Failure::Reset(reason) => client.send_reset(reason),
                // An answer had begun, so it was processed, whatever the runtime says now.
                Failure::Unprocessed | Failure::Lost => {
                    let status = Status::connection_lost(upstream.endpoint(), &error);
                    // An error means that the client is gone.
                    let _ = client.send_trailers(status.into_trailers());
                }
            }
        }
        Ok(DownloadEnd::Cut) => {
            tap.end(None);
            send.send_reset(Reason::CANCEL);
            // An error means that the client is gone.
            let _ = client.send_trailers(Status::restarting().into_trailers());
        }
        Ok(DownloadEnd::ClientGone) => send.send_reset(Reason::CANCEL),
        Err(reason) => send.send_reset(reason),
    }
}

fn failure(error: &h2::Error) -> Failure {
    if error.is_remote() && error.is_go_away() {
        // h2 gives this to the streams above the last one the runtime processed, and to no others.
        return Failure::Unprocessed;
    }
    match error.reason() {
        Some(Reason::REFUSED_STREAM) if error.is_remote() && error.is_reset() => Failure::Unprocessed,
        Some(reason) if error.is_reset() => Failure::Reset(reason),
        Some(_) | None => Failure::Lost,
    }
}

/// A request without an authority arrives here without its scheme as well, and h2 sends none without one.
fn complete_uri(head: &mut Request<()>) {
    if head.uri().scheme().is_none() {
        let mut parts = std::mem::take(head.uri_mut()).into_parts();
        parts.scheme = Some(http::uri::Scheme::HTTP);
        parts.authority = Some(http::uri::Authority::from_static("localhost"));
        *head.uri_mut() = http::Uri::from_parts(parts).unwrap_or_default();
    }
}
