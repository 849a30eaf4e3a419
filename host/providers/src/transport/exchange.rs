//! Turns the packets of a response into events, with an idle timeout and cancellation.

use super::http::Packets;
use crate::decode::Decoder;
use futures_util::future::TryFutureExt;
use futures_util::stream::{self, StreamExt};
use pinion_protocol::{EventStream, ProviderError, StreamEvent};
use pinion_redact::Secrets;
use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The time that the end of a reply is held back while the rest of the response is read. A connection is reused only if
/// its response was read to the end; otherwise the next turn pays for a handshake.
const DRAIN: Duration = Duration::from_millis(50);

/// A response about to be read.
pub(crate) struct OpenResponse {
    pub(crate) packets: Packets,
    pub(crate) secrets: Secrets,
    /// The idle timeout.
    pub(crate) idle: Duration,
}

/// Polls `opening` when the stream is first polled, and decodes the response.
pub(crate) fn exchange(
    opening: impl Future<Output = Result<OpenResponse, ProviderError>> + Send + 'static,
    decoder: Box<dyn Decoder>,
    token: CancellationToken,
) -> EventStream {
    let opened = async move {
        let OpenResponse { packets, secrets, idle } = cancellable(&token, opening).await?;
        Ok(events(packets, decoder, idle, secrets, token))
    };
    opened.try_flatten_stream().boxed()
}

/// Decodes `packets`.
pub(crate) fn events(
    packets: Packets,
    decoder: Box<dyn Decoder>,
    idle: Duration,
    secrets: Secrets,
    token: CancellationToken,
) -> EventStream {
    // Some replies end with their response, whose end is then polled once more.
    let packets = packets.fuse().boxed();
    let reading =
        ResponseReader { packets, decoder, idle, secrets, token, events: VecDeque::new(), state: ExchangeState::Open };
    stream::unfold(reading, |mut reading| async {
        let item = reading.next().await?;
        Some((item, reading))
    })
    .boxed()
}

struct ResponseReader {
    packets: Packets,
    decoder: Box<dyn Decoder>,
    idle: Duration,
    secrets: Secrets,
    token: CancellationToken,
    events: VecDeque<StreamEvent>,
    state: ExchangeState,
}

enum ExchangeState {
    Open,
    /// The error to report after the pending events.
    Failed(ProviderError),
    Done,
}

impl ResponseReader {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if self.token.is_cancelled() && !matches!(self.state, ExchangeState::Done) {
                return self.finish(Err(ProviderError::Cancelled));
            }
            if let Some(event) = self.events.pop_front() {
                if !matches!(event, StreamEvent::End { .. }) {
                    return Some(Ok(event));
                }
                self.drain().await;
                return self.finish(Ok(event));
            }
            match std::mem::replace(&mut self.state, ExchangeState::Open) {
                ExchangeState::Open => self.read().await,
                ExchangeState::Failed(error) => return self.finish(Err(self.secrets.clean_error(error))),
                ExchangeState::Done => {
                    self.state = ExchangeState::Done;
                    return None;
                }
            }
        }
    }

    fn finish(&mut self, last: Result<StreamEvent, ProviderError>) -> Option<Result<StreamEvent, ProviderError>> {
        self.state = ExchangeState::Done;
        self.events.clear();
        self.packets = stream::empty().boxed();
        Some(last)
    }

    /// Waits for one packet and decodes it.
    async fn read(&mut self) {
        let mut out = Vec::new();
        let packet = cancellable(&self.token, async { Ok(timeout(self.idle, self.packets.next()).await) }).await;
        let decoded = match packet {
            Ok(Ok(Some(Ok(packet)))) => self.decoder.feed(&packet, &mut out),
            Err(error) => Err(error),
            Ok(Ok(None)) => self.decoder.finish(&mut out),
            Ok(Ok(Some(Err(error)))) => self.interrupted(error, &mut out),
            Ok(Err(_)) => {
                let message = format!("no data received for {} s", self.idle.as_secs());
                self.interrupted(ProviderError::Network { message }, &mut out)
            }
        };
        self.events.extend(out);
        if let Err(error) = decoded {
            self.state = ExchangeState::Failed(error);
        }
    }

    /// Handles a response that was interrupted by `error`, which does not matter if the vendor had announced the end of
    /// the reply or its failure.
    fn interrupted(&mut self, error: ProviderError, out: &mut Vec<StreamEvent>) -> Result<(), ProviderError> {
        match self.decoder.finish(out) {
            Err(ProviderError::Network { .. } | ProviderError::Malformed { .. }) => Err(error),
            finished => finished,
        }
    }

    async fn drain(&mut self) {
        let rest = async { while self.packets.next().await.is_some() {} };
        // Reading the rest may time out: the reply is complete.
        let _ = timeout(DRAIN, rest).await;
    }
}

async fn cancellable<T>(
    token: &CancellationToken,
    work: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    tokio::select! {
        biased;
        () = token.cancelled() => Err(ProviderError::Cancelled),
        result = work => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::openai_chat;
    use bytes::Bytes;
    use pinion_protocol::StopReason;

    const REPLY: &[u8] =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    const DONE: &[u8] = b"data: [DONE]\n\n";

    async fn run(packets: Packets, token: CancellationToken) -> Vec<Result<StreamEvent, ProviderError>> {
        let decoder = Box::new(openai_chat::ChatDecoder::new("call"));
        events(packets, decoder, Duration::from_secs(120), Secrets::default(), token).collect().await
    }

    fn some(packets: &[&'static [u8]]) -> impl stream::Stream<Item = Result<Bytes, ProviderError>> + Send + 'static {
        let packets: Vec<_> = packets.iter().map(|packet| Ok(Bytes::from_static(packet))).collect();
        stream::iter(packets)
    }

    #[tokio::test(start_paused = true)]
    async fn silent_reply_fails_after_the_idle_timeout() {
        let packets =
            some(&[b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n"]).chain(stream::pending()).boxed();
        let started = tokio::time::Instant::now();
        let out = run(packets, CancellationToken::new()).await;
        assert_eq!(started.elapsed(), Duration::from_secs(120));
        assert_eq!(out.len(), 4);
        assert!(matches!(out.last(), Some(Err(ProviderError::Network { message })) if message.contains("120 s")));
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_reply_waits_briefly_for_the_end_of_response() {
        let out = run(some(&[REPLY, DONE]).chain(stream::pending()).boxed(), CancellationToken::new()).await;
        assert_eq!(out.last(), Some(&Ok(StreamEvent::End { stop_reason: StopReason::Stop })));
    }

    #[tokio::test]
    async fn truncated_response_is_a_network_error() {
        let out = run(some(&[&REPLY[..60]]).boxed(), CancellationToken::new()).await;
        assert!(matches!(out.last(), Some(Err(ProviderError::Network { .. }))));
    }

    #[tokio::test]
    async fn cancelled_reply_ends_immediately() {
        let token = CancellationToken::new();
        let decoder = Box::new(openai_chat::ChatDecoder::new("call"));
        let packets = some(&[REPLY]).chain(stream::pending()).boxed();
        let mut events = events(packets, decoder, Duration::from_secs(120), Secrets::default(), token.clone());
        assert!(events.next().await.unwrap().is_ok());
        token.cancel();
        assert_eq!(events.next().await, Some(Err(ProviderError::Cancelled)));
        assert_eq!(events.next().await, None);
    }

    #[tokio::test]
    async fn events_before_an_error_are_delivered() {
        let broken = stream::once(async { Err(ProviderError::Network { message: "reset".to_owned() }) });
        let out = run(some(&[&REPLY[..60]]).chain(broken).boxed(), CancellationToken::new()).await;
        assert_eq!(out.len(), 4, "{out:?}");
        assert!(matches!(&out[2], Ok(StreamEvent::Delta { delta, .. }) if delta == "hi"));
        assert_eq!(out[3], Err(ProviderError::Network { message: "reset".to_owned() }));
    }

    #[tokio::test]
    async fn announced_end_or_failure_survives_a_broken_connection() {
        let broken = || stream::once(async { Err(ProviderError::Network { message: "reset".to_owned() }) });
        let out = run(some(&[REPLY]).chain(broken()).boxed(), CancellationToken::new()).await;
        assert_eq!(out.last(), Some(&Ok(StreamEvent::End { stop_reason: StopReason::Stop })));
        let filtered = b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\n";
        let out = run(some(&[filtered]).chain(broken()).boxed(), CancellationToken::new()).await;
        assert!(matches!(out.last(), Some(Err(ProviderError::Api { .. }))), "{out:?}");
    }
}
