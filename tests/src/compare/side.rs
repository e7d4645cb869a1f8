//! One of the two paths to the runtime.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use tokio::time::timeout;

use super::methods::Call;
use super::transcript::Transcript;
use crate::fake::{FakeKubelet, OpenCall, Reply, framed};

/// Far more than any call here takes on a machine with other work to do: who needs it hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A call that was answered with another status than OK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `grpc-status`.
    pub code: u32,
    /// `grpc-message`.
    pub message: String,
}

impl Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", code(self.code), self.message)
    }
}

impl std::error::Error for Refused {}

/// A connection to one of the two sockets, and the transcript of what it answered.
pub struct Side {
    token: &'static str,
    connection: FakeKubelet,
    transcript: Mutex<Transcript>,
}

impl Side {
    /// Connects. The token stands for the side in names that must not be the same on both; transcripts hide
    /// it.
    pub async fn connect(socket: &Path, token: &'static str) -> Result<Self> {
        let mut transcript = Transcript::default();
        transcript.hide(token, "side");
        Ok(Self {
            token,
            connection: FakeKubelet::connect(socket).await?,
            transcript: Mutex::new(transcript),
        })
    }

    /// Returns the token that tells the two sides apart.
    pub fn token(&self) -> &'static str {
        self.token
    }

    /// Adds a line to the transcript.
    pub fn say(&self, line: impl Into<String>) {
        self.lock().say(line.into());
    }

    /// Hides a value in the transcript.
    pub fn hide(&self, value: &str, placeholder: &str) {
        self.lock().hide(value, placeholder);
    }

    /// The transcript so far.
    pub fn transcript(&self) -> Transcript {
        self.lock().clone()
    }

    /// Makes a call and writes down how it was answered.
    pub async fn ask<C: Call>(&self, request: C) -> Result<Result<C::Answer, Refused>> {
        let answer = self.quietly(request).await?;
        self.say(match &answer {
            Ok(_) => format!("{}: OK", C::NAME),
            Err(refused) => format!("{}: {refused}", C::NAME),
        });
        Ok(answer)
    }

    /// Makes a call that has to succeed.
    pub async fn must<C: Call>(&self, request: C) -> Result<C::Answer> {
        self.ask(request).await?.with_context(|| C::NAME)
    }

    /// Makes a call that has to be refused.
    pub async fn refused<C: Call>(&self, request: C) -> Result<Refused> {
        match self.ask(request).await? {
            Ok(answer) => bail!("{} succeeded: {answer:?}", C::NAME),
            Err(refused) => Ok(refused),
        }
    }

    /// Makes a call that is not part of the transcript.
    pub async fn quietly<C: Call>(&self, request: C) -> Result<Result<C::Answer, Refused>> {
        let reply = self.raw(C::PATH, &[], framed(&request.encode_to_vec())).await?;
        let code =
            reply.status().with_context(|| format!("{}: no grpc-status: {:?}", C::NAME, reply.head))?;
        if code != 0 {
            return Ok(Err(Refused { code, message: reply.message().to_owned() }));
        }
        let body = reply.body();
        ensure!(body.len() >= 5 && body[0] == 0, "{}: no message", C::NAME);
        Ok(Ok(C::Answer::decode(&body[5..]).with_context(|| format!("{}: its answer", C::NAME))?))
    }

    /// Sends a body to a path and writes down all of the answer that a client sees: status and message of
    /// gRPC, status and type of HTTP, the bytes; or how the stream was reset.
    pub async fn send(&self, path: &str, headers: &[(&str, &str)], body: bytes::Bytes) -> Result<()> {
        let mut call = self.connection.open(path, headers).await?;
        call.send.send_data(body, true)?;
        let answer =
            match timeout(PATIENCE, call.reply()).await.with_context(|| format!("{path}: no answer"))? {
                Ok(reply) => {
                    let status = reply.status().map_or_else(|| "no status".to_owned(), code);
                    let content = reply.head.headers.get("content-type");
                    let (message, http, bytes) = (reply.message(), reply.head.status, reply.body());
                    format!("{status}: {message}: {http} {content:?} {:?}", bytes::Bytes::from(bytes))
                }
                // A reset is an answer as well.
                Err(error) if error.is_reset() && error.is_remote() => format!("{error}"),
                Err(error) => return Err(error).with_context(|| path.to_owned()),
            };
        self.say(format!("{path}: {answer}"));
        Ok(())
    }

    /// Makes a call with a body and headers of whoever calls.
    pub async fn raw(&self, path: &str, headers: &[(&str, &str)], body: bytes::Bytes) -> Result<Reply> {
        timeout(PATIENCE, self.connection.call_with(path, headers, body))
            .await
            .with_context(|| format!("{path}: no answer"))?
            .with_context(|| path.to_owned())
    }

    /// Begins a call and does not wait for its answer. Dropped, it is cancelled.
    pub async fn begin<C: Call>(&self, request: C) -> Result<OpenCall> {
        let mut call = self.connection.open(C::PATH, &[]).await?;
        call.send.send_data(framed(&request.encode_to_vec()), true)?;
        Ok(call)
    }

    fn lock(&self) -> MutexGuard<'_, Transcript> {
        self.transcript.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a `grpc-status`.
pub fn code(number: u32) -> String {
    format!("{:?}", tonic::Code::from_i32(number.cast_signed()))
}
