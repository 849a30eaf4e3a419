//! Fallback to other models after a permanent failure.
//!
//! [`Fallback`] combines several providers. A request goes to the first member; when it rejects the request, or stays
//! unreachable, the next one is asked within the same request. A failed member is skipped for a while, so that a
//! conversation does not alternate between models, which would cost it its prompt cache and its thinking.
//!
//! Permanent failures are a rejected key, a rejected request, and a malformed response. The loop retries overload, rate
//! limits and network errors; a member is skipped only after [`Fallback::max_failures`] of them in a row. A prompt that
//! is too long is left to the loop to compact, and a cancelled request is not a failure. Once parts of a reply were
//! passed on, another member cannot take over: an error in mid-reply is the reply's error.

use futures_util::stream::{self, StreamExt};
use pinion_protocol::{
    AssistantMessage, EventStream, Message, Provider, ProviderError, Request, RequestOptions, StreamEvent,
};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A provider and the model to request from it.
#[derive(Clone)]
pub struct FallbackMember {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model's name, as the provider knows it. The first member receives the request's own model instead.
    pub model: String,
}

/// A provider that tries its members in turn. It has the first member's name.
///
/// Replies of later members are attributed to the model `PROVIDER/MODEL`, which also routes their thinking back to
/// them.
#[derive(Debug)]
pub struct Fallback {
    shared: Arc<Members>,
}

#[derive(Debug)]
struct Members {
    members: Vec<FallbackMember>,
    max_failures: u32,
    pause: Duration,
    health: Mutex<Vec<Health>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Health {
    /// Consecutive transient failures.
    failures: u32,
    /// The end of the pause after a permanent failure.
    paused_until: Option<Instant>,
}

impl fmt::Debug for FallbackMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.name(), self.model)
    }
}

impl FallbackMember {
    /// The model that replies of this member name unless it is the first: `PROVIDER/MODEL`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.provider.name(), self.model)
    }
}

impl Fallback {
    /// Combines `first` with members to try when it fails, in order. A member is skipped for 5 minutes after a
    /// permanent failure, or after 3 consecutive transient ones.
    pub fn new(first: FallbackMember, others: impl IntoIterator<Item = FallbackMember>) -> Self {
        let members: Vec<FallbackMember> = std::iter::once(first).chain(others).collect();
        let health = Mutex::new(vec![Health::default(); members.len()]);
        let shared = Members { members, max_failures: 3, pause: Duration::from_secs(300), health };
        Self { shared: Arc::new(shared) }
    }

    /// Sets the number of consecutive transient failures that make a member skipped; at least 1.
    #[must_use]
    pub fn max_failures(self, failures: u32) -> Self {
        self.with(|shared| shared.max_failures = failures.max(1))
    }

    /// Sets how long a failed member is skipped.
    #[must_use]
    pub fn pause(self, pause: Duration) -> Self {
        self.with(|shared| shared.pause = pause)
    }

    fn with(self, change: impl FnOnce(&mut Members)) -> Self {
        let Self { shared } = self;
        let mut shared = Arc::try_unwrap(shared).unwrap_or_else(|shared| Members {
            members: shared.members.clone(),
            max_failures: shared.max_failures,
            pause: shared.pause,
            health: Mutex::new(vec![Health::default(); shared.members.len()]),
        });
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }
}

impl Provider for Fallback {
    fn name(&self) -> &str {
        self.shared.members.first().map_or("", |first| first.provider.name())
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let waiting = self.shared.candidates();
        let mut attempt =
            FallbackAttempt { shared: self.shared.clone(), request, token, waiting, current: None, held: None };
        attempt.next_member();
        stream::unfold(attempt, |mut attempt| async {
            let item = attempt.next().await?;
            Some((item, attempt))
        })
        .boxed()
    }
}

impl Members {
    /// Returns the members to try, in order: those that are not paused, or all when all are.
    fn candidates(&self) -> VecDeque<usize> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_available = |at: &usize| health[*at].paused_until.is_none_or(|until| until <= now);
        let available: VecDeque<usize> = (0..self.members.len()).filter(is_available).collect();
        if available.is_empty() { (0..self.members.len()).collect() } else { available }
    }

    fn succeeded(&self, at: usize) {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)[at] = Health::default();
    }

    /// Records a failure and returns whether another member should take over.
    fn failed(&self, at: usize, error: &ProviderError) -> bool {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let member = &mut health[at];
        let is_permanent = match error {
            ProviderError::Cancelled | ProviderError::ContextOverflow { .. } => return false,
            // The same member takes the request without the image.
            ProviderError::ImageRefused { .. } => return false,
            ProviderError::RateLimited { .. } | ProviderError::Overloaded { .. } | ProviderError::Network { .. } => {
                member.failures += 1;
                member.failures >= self.max_failures
            }
            ProviderError::Api { .. }
            | ProviderError::Auth { .. }
            | ProviderError::Malformed { .. }
            | ProviderError::Unreachable { .. } => true,
        };
        if is_permanent {
            *member = Health { failures: 0, paused_until: Some(Instant::now() + self.pause) };
        }
        is_permanent
    }

    /// Adapts the request to a member. Replies of members carry the first member's name and their own label; each is
    /// attributed to its member again, so that another member does not take its thinking for its own.
    fn request_for(&self, at: usize, request: &Request) -> Request {
        let first = self.members[0].provider.name();
        let author = |reply: &AssistantMessage| {
            let others = self.members.iter().skip(1).filter(|_| reply.provider == first);
            others.into_iter().find(|member| member.label() == reply.model)
        };
        let attributed = |message: &Arc<Message>| match &**message {
            Message::Assistant(reply) => author(reply).map_or_else(
                || message.clone(),
                |member| {
                    let (provider, model) = (member.provider.name().to_owned(), member.model.clone());
                    let reply = AssistantMessage { provider, model, requested_model: None, ..reply.clone() };
                    Arc::new(Message::Assistant(reply))
                },
            ),
            _ => message.clone(),
        };
        let messages = request.messages.iter().map(attributed).collect();
        if at == 0 {
            return Request { messages, ..request.clone() };
        }
        let member = &self.members[at];
        // A key in the request belongs to the first member.
        let options = RequestOptions { api_key: None, ..request.options.clone() };
        Request { model: member.model.clone(), messages, options, ..request.clone() }
    }
}

/// One request as it moves through the members.
struct FallbackAttempt {
    shared: Arc<Members>,
    request: Request,
    token: CancellationToken,
    /// The members not tried yet.
    waiting: VecDeque<usize>,
    current: Option<(usize, EventStream)>,
    /// Events held back before the current member's first part; `None` once parts were passed on.
    held: Option<VecDeque<StreamEvent>>,
}

impl FallbackAttempt {
    fn next_member(&mut self) {
        self.held = Some(VecDeque::new());
        self.current = self.waiting.pop_front().map(|at| {
            let request = self.shared.request_for(at, &self.request);
            (at, self.shared.members[at].provider.stream(request, self.token.clone()))
        });
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            let Some((at, stream)) = &mut self.current else {
                return self.held.as_mut().and_then(VecDeque::pop_front).map(Ok);
            };
            let at = *at;
            match stream.next().await {
                Some(Ok(event)) => {
                    if let Some(event) = self.pass(at, event) {
                        return Some(Ok(event));
                    }
                }
                Some(Err(error)) => {
                    let is_permanent = self.shared.failed(at, &error);
                    let can_fall_back = is_permanent && self.held.is_some() && !self.waiting.is_empty();
                    if !can_fall_back {
                        self.current = None;
                        self.held = None;
                        return Some(Err(error));
                    }
                    tracing::warn!(member = ?self.shared.members[at], %error, "provider failed, falling back to the next model");
                    self.next_member();
                }
                None => self.current = None,
            }
        }
    }

    /// Holds back events before the first part, so that another member can still take over, and passes on all others.
    fn pass(&mut self, at: usize, event: StreamEvent) -> Option<StreamEvent> {
        let event = match event {
            StreamEvent::Start { .. } if at > 0 => StreamEvent::Start { model: Some(self.shared.members[at].label()) },
            event => event,
        };
        if matches!(event, StreamEvent::End { .. }) {
            self.shared.succeeded(at);
        }
        match &mut self.held {
            None => Some(event),
            Some(held) if matches!(event, StreamEvent::Start { .. } | StreamEvent::Usage(_)) => {
                held.push_back(event);
                None
            }
            Some(_) => {
                let mut held = self.held.take().unwrap_or_default();
                held.push_back(event);
                let first = held.pop_front();
                // The remaining held events precede the rest of the stream.
                if let Some((at, stream)) = self.current.take() {
                    let rest = stream::iter(held.into_iter().map(Ok)).chain(stream);
                    self.current = Some((at, rest.boxed()));
                }
                first
            }
        }
    }
}
