//! A provider that redacts secrets in replies.

use super::stream::StreamRedactor;
use super::{KnownSecrets, Secrets};
use futures_util::stream::{self, StreamExt as _};
use pinion_protocol::provider::{EventStream, PartKind, Provider, ProviderError, Request, StreamEvent};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum bytes of a possible secret to release early, when events of another part would have to wait for them.
const MAX_EARLY: usize = 2;

/// Characters of an error message.
const MAX_MESSAGE: usize = 2_000;

/// A provider that redacts secrets in events and errors, even across deltas. All other content and the order of events
/// remain unchanged. A delta waits for the next one if a secret could start at its end.
pub struct RedactedProvider {
    inner: Arc<dyn Provider>,
    secrets: Secrets,
}

impl RedactedProvider {
    /// Wraps a provider.
    pub fn new(inner: Arc<dyn Provider>, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }
}

impl Provider for RedactedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let requested_model = request.model.clone();
        let stream = self.inner.stream(request, token);
        let secrets = self.secrets.clone();
        let (parts, queue) = (Vec::new(), VecDeque::new());
        let redacting = Redacting { stream, secrets, requested_model, parts, queue, failed: None };
        stream::unfold(redacting, |mut redacting| async {
            let item = redacting.next().await?;
            Some((item, redacting))
        })
        .boxed()
    }
}

struct Redacting {
    stream: EventStream,
    secrets: Secrets,
    /// The name of the model in the request, which is the user's own.
    requested_model: String,
    parts: Vec<StreamRedactor>,
    queue: VecDeque<EventSlot>,
    /// Error to emit after the queue.
    failed: Option<ProviderError>,
}

/// A position in the order of events.
enum EventSlot {
    Event(StreamEvent),
    /// A delayed delta of the part with this index.
    Held(usize),
}

impl Redacting {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready() {
                return Some(Ok(event));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            let item = self.stream.next().await;
            // Must come after the poll: the provider adds its key when it sends the request.
            let known = self.secrets.snapshot();
            match item {
                Some(Ok(event)) => self.push_event(&known, event),
                Some(Err(error)) => {
                    self.flush(&known, usize::MAX);
                    self.failed = Some(map_message(error, |text| self.secrets.clean(text).into_owned()));
                }
                None => {
                    self.flush(&known, usize::MAX);
                    return self.ready().map(Ok);
                }
            }
        }
    }

    /// Returns the first event, unless it is a delayed delta.
    fn ready(&mut self) -> Option<StreamEvent> {
        match self.queue.pop_front()? {
            EventSlot::Event(event) => Some(event),
            held @ EventSlot::Held(_) => {
                self.queue.push_front(held);
                None
            }
        }
    }

    fn push_event(&mut self, known: &KnownSecrets, event: StreamEvent) {
        let of_part = match &event {
            StreamEvent::Delta { index, .. } | StreamEvent::PartEnd { index, .. } => Some(*index),
            _ => None,
        };
        if self.queue.iter().any(|slot| matches!(slot, EventSlot::Held(index) if Some(*index) != of_part)) {
            self.flush(known, MAX_EARLY);
        }
        match event {
            StreamEvent::Start { mut model } => {
                if model.as_ref() != Some(&self.requested_model) {
                    known.clean_option(&mut model);
                }
                self.queue.push_back(EventSlot::Event(StreamEvent::Start { model }));
            }
            StreamEvent::PartStart { index, part } => self.start(known, index, part),
            StreamEvent::Delta { index, delta } => self.delta(known, index, &delta),
            StreamEvent::PartEnd { index, mut signature } => {
                let rest = self.parts.get_mut(index).map(|part| part.finish(known.matcher())).unwrap_or_default();
                self.release(index, rest);
                known.clean_option(&mut signature);
                self.queue.push_back(EventSlot::Event(StreamEvent::PartEnd { index, signature }));
            }
            event @ (StreamEvent::Usage(_) | StreamEvent::End { .. }) => self.queue.push_back(EventSlot::Event(event)),
        }
    }

    fn start(&mut self, known: &KnownSecrets, index: usize, mut part: PartKind) {
        if let PartKind::ToolCall { id, name } = &mut part {
            [id, name].into_iter().for_each(|text| known.clean_string(text));
        }
        // Indices count up from 0; the agent loop rejects others.
        if index == self.parts.len() {
            self.parts.push(StreamRedactor::default());
        }
        self.queue.push_back(EventSlot::Event(StreamEvent::PartStart { index, part }));
    }

    fn delta(&mut self, known: &KnownSecrets, index: usize, delta: &str) {
        let Some(part) = self.parts.get_mut(index) else {
            let delta = known.clean(delta).into_owned();
            return self.queue.push_back(EventSlot::Event(StreamEvent::Delta { index, delta }));
        };
        self.queue.push_back(EventSlot::Held(index));
        let texts = part.push(known.matcher(), delta);
        self.release(index, texts);
    }

    /// Fills the first delayed deltas of a part with texts. Empty texts leave no event.
    fn release(&mut self, index: usize, texts: Vec<String>) {
        for delta in texts {
            let held = self.queue.iter().position(|slot| matches!(slot, EventSlot::Held(other) if *other == index));
            match (held, delta.is_empty()) {
                (Some(at), false) => self.queue[at] = EventSlot::Event(StreamEvent::Delta { index, delta }),
                (Some(at), true) => drop(self.queue.remove(at)),
                (None, false) => self.queue.push_back(EventSlot::Event(StreamEvent::Delta { index, delta })),
                (None, true) => {}
            }
        }
    }

    /// Releases the deltas that wait because of at most `max` bytes.
    fn flush(&mut self, known: &KnownSecrets, max: usize) {
        for index in 0..self.parts.len() {
            let texts = self.parts[index].give_up(known.matcher(), max);
            self.release(index, texts);
        }
    }
}

impl Secrets {
    /// Applies [`Self::clean_answer`] to the text of an error that a server sent, and shortens it to 2,000 characters.
    pub fn clean_error(&self, error: ProviderError) -> ProviderError {
        map_message(error, |text| {
            let mut clean = self.clean_answer(text).into_owned();
            if let Some((end, _)) = clean.char_indices().nth(MAX_MESSAGE) {
                clean.truncate(end);
                clean.push('…');
            }
            clean
        })
    }
}

fn map_message(mut error: ProviderError, change: impl Fn(&str) -> String) -> ProviderError {
    match &mut error {
        ProviderError::Api { message, .. }
        | ProviderError::Auth { message }
        | ProviderError::RateLimited { message, .. }
        | ProviderError::Overloaded { message, .. }
        | ProviderError::Network { message }
        | ProviderError::Unreachable { message }
        | ProviderError::ContextOverflow { message }
        | ProviderError::ImageRefused { message }
        | ProviderError::Malformed { message } => *message = change(message),
        ProviderError::Cancelled => {}
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::message::StopReason;
    use secrecy::SecretString;

    const KEY: &str = "sk-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt";

    struct Says(Vec<Result<StreamEvent, ProviderError>>, Secrets);

    impl Provider for Says {
        fn name(&self) -> &str {
            "says"
        }

        fn stream(&self, _: Request, _: CancellationToken) -> EventStream {
            let (events, secrets) = (self.0.clone(), self.1.clone());
            // Real providers add their key when they send the request, after the stream was opened.
            let add = async move { secrets.add(&SecretString::from(KEY)) };
            stream::once(add).flat_map(move |()| stream::iter(events.clone())).boxed()
        }
    }

    async fn redact_events(events: Vec<Result<StreamEvent, ProviderError>>) -> Vec<Result<StreamEvent, ProviderError>> {
        asked("", events).await
    }

    async fn asked(
        model: &str,
        events: Vec<Result<StreamEvent, ProviderError>>,
    ) -> Vec<Result<StreamEvent, ProviderError>> {
        let secrets = Secrets::default();
        let provider = RedactedProvider::new(Arc::new(Says(events, secrets.clone())), secrets);
        let request = Request {
            model: model.to_owned(),
            system: "".into(),
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: Default::default(),
            options: Default::default(),
        };
        provider.stream(request, CancellationToken::new()).collect().await
    }

    fn part(index: usize, part: PartKind, deltas: Vec<String>) -> Vec<Result<StreamEvent, ProviderError>> {
        let start = std::iter::once(StreamEvent::PartStart { index, part });
        let deltas = deltas.into_iter().map(|delta| StreamEvent::Delta { index, delta });
        start.chain(deltas).chain([StreamEvent::PartEnd { index, signature: Some(KEY.to_owned()) }]).map(Ok).collect()
    }

    fn texts(events: &[Result<StreamEvent, ProviderError>], wanted: usize) -> String {
        let delta = |event: &Result<StreamEvent, ProviderError>| match event {
            Ok(StreamEvent::Delta { index, delta }) if *index == wanted => Some(delta.clone()),
            _ => None,
        };
        events.iter().filter_map(delta).collect()
    }

    #[tokio::test]
    async fn key_in_single_characters_is_redacted_in_all_parts() {
        let letters = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let call = PartKind::ToolCall { id: KEY.to_owned(), name: KEY.to_owned() };
        let escaped: String = KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let mut events = part(0, PartKind::Text, letters(&format!("it is {KEY}!")));
        events.extend(part(1, PartKind::Thinking, letters(KEY)));
        events.extend(part(2, call, letters(&format!("{{\"a\":\"{escaped}\"}}"))));
        events.push(Ok(StreamEvent::End { stop_reason: StopReason::Stop }));
        let out = redact_events(events).await;
        assert_eq!(texts(&out, 0), "it is sk-[redacted]!");
        assert_eq!(
            (texts(&out, 1), texts(&out, 2)),
            ("sk-[redacted]".to_owned(), "{\"a\":\"\\u0073\\u006b\\u002d[redacted]\"}".to_owned())
        );
        let all = format!("{out:?}");
        assert!(!all.contains("Zq7X") && !all.contains("\\u0071"), "{all}");
    }

    #[tokio::test]
    async fn name_of_the_requested_model_is_kept() {
        let models = |said: &[Result<StreamEvent, ProviderError>]| match &said[0] {
            Ok(StreamEvent::Start { model }) => model.clone(),
            other => panic!("{other:?}"),
        };
        let named = |model: &str| vec![Ok(StreamEvent::Start { model: Some(model.to_owned()) })];
        assert_eq!(
            models(&asked("box-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt", named("box-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt")).await).as_deref(),
            Some("box-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt")
        );
        assert_eq!(
            models(&asked("m", named("box-live-Zq7Xw3Vb9Nm2Kp5Ld8Rt")).await).as_deref(),
            Some("box-[redacted]")
        );
    }

    #[tokio::test]
    async fn delayed_text_precedes_the_end_of_its_part() {
        let out = redact_events(part(0, PartKind::Text, vec!["the end: live-Zq7X".to_owned()])).await;
        assert_eq!(texts(&out, 0), "the end: live-Zq7X");
        assert!(matches!(out.last(), Some(Ok(StreamEvent::PartEnd { .. }))));
    }

    #[tokio::test]
    async fn delayed_text_precedes_an_error() {
        let mut events = part(0, PartKind::Text, vec!["the end: live-Zq7X".to_owned()]);
        events.pop();
        events.push(Err(ProviderError::Cancelled));
        let out = redact_events(events).await;
        assert_eq!((texts(&out, 0).as_str(), out.last()), ("the end: live-Zq7X", Some(&Err(ProviderError::Cancelled))));
    }

    #[tokio::test]
    async fn errors_are_cleaned() {
        let out =
            redact_events(vec![Err(ProviderError::Api { status: Some(400), message: format!("no {KEY}") })]).await;
        assert_eq!(out[0].as_ref().unwrap_err().to_string(), "HTTP 400: no sk-[redacted]");
    }
}
