//! Another model for when the first one fails for good.
//!
//! [`Fallback`] is a provider made of several. A request goes to the first; when that refuses it, or cannot be reached
//! again and again, the next one is asked, within the same request. A member that failed is passed over for a while, so
//! that a conversation does not go back and forth between models, which would cost it its cache and its thinking.
//!
//! What is a failure for good: a refused key, a refused request, an answer that makes no sense. Overload, rate limits and
//! network errors are the loop's to try again; only after [`Fallback::patience`] of them in a row is a member given up. A
//! prompt that is too long is the loop's to make shorter, and a cancelled request is nobody's failure. Once parts of a
//! reply have been handed on there is no way back: an error in mid-reply is the reply's error.

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

/// A provider and the model that is asked there.
#[derive(Clone)]
pub struct FallbackMember {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model's name, as the provider knows it. The first member is asked for the request's own model instead.
    pub model: String,
}

/// A provider that asks others in turn. It has the first one's name.
///
/// What a later member says is marked as from the model `PROVIDER/MODEL`, with which it also gets its own thinking back.
#[derive(Debug)]
pub struct Fallback {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    members: Vec<FallbackMember>,
    patience: u32,
    rest: Duration,
    health: Mutex<Vec<Health>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Health {
    /// Failures in a row that were worth another try.
    failures: u32,
    /// It is passed over until then.
    rests_until: Option<Instant>,
}

impl fmt::Debug for FallbackMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.name(), self.model)
    }
}

impl FallbackMember {
    /// The model as replies of this member name it when it is not the first: `PROVIDER/MODEL`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.provider.name(), self.model)
    }
}

impl Fallback {
    /// `first`, and who is asked when it fails, in this order. A member is given up after 3 failures in a row that were
    /// worth another try, and passed over for 5 minutes.
    pub fn new(first: FallbackMember, others: impl IntoIterator<Item = FallbackMember>) -> Self {
        let members: Vec<FallbackMember> = std::iter::once(first).chain(others).collect();
        let health = Mutex::new(vec![Health::default(); members.len()]);
        let shared = Shared { members, patience: 3, rest: Duration::from_secs(300), health };
        Self { shared: Arc::new(shared) }
    }

    /// The same, with another number of failures in a row after which a member is given up; at least 1.
    #[must_use]
    pub fn patience(self, failures: u32) -> Self {
        self.with(|shared| shared.patience = failures.max(1))
    }

    /// The same, with another time for which a member that failed is passed over.
    #[must_use]
    pub fn rest(self, rest: Duration) -> Self {
        self.with(|shared| shared.rest = rest)
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Self { shared } = self;
        let mut shared = Arc::try_unwrap(shared).unwrap_or_else(|shared| Shared {
            members: shared.members.clone(),
            patience: shared.patience,
            rest: shared.rest,
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
        let waiting = self.shared.order();
        let mut asking = Asking { shared: self.shared.clone(), request, token, waiting, current: None, held: None };
        asking.next_member();
        stream::unfold(asking, |mut asking| async {
            let item = asking.next().await?;
            Some((item, asking))
        })
        .boxed()
    }
}

impl Shared {
    /// Whom to ask: those who are well, or everybody when nobody is.
    fn order(&self) -> VecDeque<usize> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_well = |at: &usize| health[*at].rests_until.is_none_or(|until| until <= now);
        let well: VecDeque<usize> = (0..self.members.len()).filter(is_well).collect();
        if well.is_empty() { (0..self.members.len()).collect() } else { well }
    }

    fn succeeded(&self, at: usize) {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)[at] = Health::default();
    }

    /// Is this member given up?
    fn failed(&self, at: usize, error: &ProviderError) -> bool {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let member = &mut health[at];
        let is_for_good = match error {
            ProviderError::Cancelled | ProviderError::ContextOverflow { .. } => return false,
            ProviderError::RateLimited { .. } | ProviderError::Overloaded { .. } | ProviderError::Network { .. } => {
                member.failures += 1;
                member.failures >= self.patience
            }
            ProviderError::Api { .. } | ProviderError::Auth { .. } | ProviderError::Malformed { .. } => true,
        };
        if is_for_good {
            *member = Health { failures: 0, rests_until: Some(Instant::now() + self.rest) };
        }
        is_for_good
    }

    /// The request as a member is asked it.
    fn request_for(&self, at: usize, request: &Request) -> Request {
        if at == 0 {
            return request.clone();
        }
        let (member, first) = (&self.members[at], self.members[0].provider.name());
        let label = member.label();
        let own = |message: &Arc<Message>| match &**message {
            Message::Assistant(reply) if reply.provider == first && reply.model == label => {
                let provider = member.provider.name().to_owned();
                Arc::new(Message::Assistant(AssistantMessage {
                    provider,
                    model: member.model.clone(),
                    ..reply.clone()
                }))
            }
            _ => message.clone(),
        };
        let messages = request.messages.iter().map(own).collect();
        // A key of the request is the first member's.
        let options = RequestOptions { api_key: None, ..request.options.clone() };
        Request { model: member.model.clone(), messages, options, ..request.clone() }
    }
}

/// One request on its way through the members.
struct Asking {
    shared: Arc<Shared>,
    request: Request,
    token: CancellationToken,
    /// Members not yet asked.
    waiting: VecDeque<usize>,
    current: Option<(usize, EventStream)>,
    /// The first event of a member that has not said more yet; none once parts were handed on.
    held: Option<VecDeque<StreamEvent>>,
}

impl Asking {
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
                    let is_given_up = self.shared.failed(at, &error);
                    let can_go_on = is_given_up && self.held.is_some() && !self.waiting.is_empty();
                    if !can_go_on {
                        self.current = None;
                        self.held = None;
                        return Some(Err(error));
                    }
                    tracing::warn!(member = ?self.shared.members[at], %error, "given up for now; the next model is asked");
                    self.next_member();
                }
                None => self.current = None,
            }
        }
    }

    /// Events before the first part are held back: as long as nothing else came, another member can still be asked.
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
                // What is left goes out before anything that comes.
                if let Some((at, stream)) = self.current.take() {
                    let rest = stream::iter(held.into_iter().map(Ok)).chain(stream);
                    self.current = Some((at, rest.boxed()));
                }
                first
            }
        }
    }
}
