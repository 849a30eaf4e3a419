//! The account of all requests of a program, by conversation.

use crate::cache_break::{CacheBreak, SegmentChange, find_break};
use crate::forecast::{CACHE_LIFETIME, RequestForecast};
use crate::owner::SegmentOwner;
use crate::request_parts::RequestParts;
use pinion_protocol::{PriceList, Request, Spend, TokenCounter, ToolChoice, ToolDefinition, Usage};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Conversations that are remembered, the last ones.
const MAX_CONVERSATIONS: usize = 16;
/// Breaks of a conversation that are remembered, the last ones.
const MAX_BREAKS: usize = 100;
/// Turns of the user that a forecast looks back on, and the least number that allows one.
const MAX_TURNS: usize = 5;
const LEAST_TURNS: usize = 2;
/// Plausible ratio of reported to estimated tokens.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.25..=4.0;
/// Tokens below which vendors cache nothing.
const LEAST_CACHED: u64 = 1_024;

/// Accounts for requests. Shared by all providers of a program.
pub struct RequestLedger {
    counter: Arc<dyn TokenCounter>,
    state: Mutex<LedgerState>,
}

#[derive(Default)]
struct LedgerState {
    /// Requests of all conversations, and their cost in US dollars where prices are known.
    requests: u64,
    dollars: f64,
    conversations: HashMap<String, ConversationAccount>,
    /// Ids of the conversations, the one with the latest request last.
    order: VecDeque<String>,
}

/// The requests of a conversation.
struct ConversationAccount {
    requests: u64,
    /// The last request that belongs to the conversation itself.
    parts: Option<RequestParts>,
    /// Its report.
    last: Usage,
    ended: SystemTime,
    model: String,
    prices: Option<Arc<dyn PriceList>>,
    /// Ratio of reported to estimated tokens.
    ratio: f64,
    /// Error of the last estimate, relative to the report.
    error: Option<f64>,
    output: (u64, u64),
    breaks: VecDeque<NotedBreak>,
    /// Requests of the last turns of the user.
    turns: VecDeque<u64>,
}

impl Default for ConversationAccount {
    fn default() -> Self {
        Self {
            requests: 0,
            parts: None,
            last: Usage::default(),
            ended: SystemTime::UNIX_EPOCH,
            model: String::new(),
            prices: None,
            ratio: 1.0,
            error: None,
            output: (0, 0),
            breaks: VecDeque::new(),
            turns: VecDeque::new(),
        }
    }
}

/// A break of the vendor's cache.
#[derive(Debug, Clone, PartialEq)]
pub struct NotedBreak {
    /// Number of the request in the conversation, counted from 1.
    pub request: u64,
    /// The break; its tokens agree with the vendor's count.
    pub found: CacheBreak,
    /// Its cost in US dollars; `None` where no price is known.
    pub cost: Option<f64>,
}

/// A request under way.
pub struct RequestTicket {
    session: String,
    request: u64,
    /// `None` for a question outside the conversation, such as the one for a summary.
    parts: Option<RequestParts>,
    found: Option<CacheBreak>,
    expected: u64,
    prices: Option<Arc<dyn PriceList>>,
}

/// The state of a ledger when a turn of the user begins.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerMark {
    requests: u64,
    of_session: u64,
    /// US dollars and tokens that the turn is expected to cost; `None` without earlier turns.
    pub forecast: Option<(Option<f64>, u64)>,
}

/// Numbers of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All requests.
    pub all: u64,
    /// Requests of sub-agents and branches.
    pub by_others: u64,
}

impl RequestLedger {
    /// Creates an empty ledger.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter, state: Mutex::default() }
    }

    /// Takes note of a request that starts, and compares it with the request before.
    pub fn begin(&self, provider: &str, request: &Request, prices: Option<Arc<dyn PriceList>>) -> RequestTicket {
        let session = request.options.session_id.clone().unwrap_or_default();
        let mut state = self.lock();
        state.requests += 1;
        let account = state.open(&session);
        account.requests += 1;
        let number = account.requests;
        if request.tool_choice == ToolChoice::None {
            return RequestTicket { session, request: number, parts: None, found: None, expected: 0, prices };
        }
        let before = account.parts.as_ref();
        let parts = RequestParts::divide(provider, request, before, &*self.counter);
        let found = before.and_then(|before| find_break(before, &parts));
        let expected = account.expected(&parts, found.is_some());
        RequestTicket { session, request: number, parts: Some(parts), found, expected, prices }
    }

    /// Takes note of the end of a request, with the vendor's report.
    pub fn finish(&self, ticket: RequestTicket, model: &str, usage: &Usage, now: SystemTime) {
        let RequestTicket { session, request, parts, found, expected, prices } = ticket;
        let mut state = self.lock();
        let cost = prices.as_ref().and_then(|prices| prices.cost(model, usage)).map_or(0.0, |cost| cost.total());
        state.dollars += if cost.is_finite() { cost } else { 0.0 };
        let Some(parts) = parts else { return };
        let account = state.open(&session);
        let (context, estimate) = (usage.context(), parts.tokens());
        let ratio = context as f64 / estimate.max(1) as f64;
        if PLAUSIBLE.contains(&ratio) {
            account.ratio = ratio;
            account.error = (account.parts.is_some() && context > 0)
                .then(|| (expected as f64 - context as f64).abs() / context as f64);
        }
        if account.parts.is_some()
            && let Some(found) = account.confirmed(found, usage, now)
        {
            let dollars = |usage: Usage| prices.as_ref()?.cost(model, &usage).map(|cost| cost.total());
            let full = match usage.cache_write {
                0 => Usage { input: found.lost, ..Usage::default() },
                _ => Usage { cache_write: found.lost, ..Usage::default() },
            };
            let cached = Usage { cache_read: found.lost, ..Usage::default() };
            let cost = dollars(full).zip(dollars(cached)).map(|(full, cached)| (full - cached).max(0.0));
            if account.breaks.len() == MAX_BREAKS {
                account.breaks.pop_front();
            }
            account.breaks.push_back(NotedBreak { request, found, cost });
        }
        account.output = (account.output.0 + usage.output, account.output.1 + 1);
        (account.parts, account.last, account.ended) = (Some(parts), *usage, now);
        (account.model, account.prices) = (model.to_owned(), prices);
    }

    /// Returns the cost of all requests that ended, in US dollars; requests without known prices cost nothing.
    pub fn spent(&self) -> f64 {
        self.lock().dollars
    }

    /// Returns the breaks of a conversation, oldest first.
    pub fn breaks(&self, session: &str) -> Vec<NotedBreak> {
        self.lock()
            .conversations
            .get(session)
            .map(|account| account.breaks.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Returns the owners of the last request's segments and their tokens by the vendor's count, in the order of the
    /// request. Segments of one owner are added up.
    pub fn segments(&self, session: &str) -> Vec<(Arc<SegmentOwner>, u64)> {
        let state = self.lock();
        let account = state.conversations.get(session);
        let Some((account, parts)) = account.and_then(|account| Some((account, account.parts.as_ref()?))) else {
            return Vec::new();
        };
        let mut segments: Vec<(Arc<SegmentOwner>, u64)> = Vec::new();
        for segment in parts.segments().iter().filter(|segment| segment.tokens > 0) {
            let tokens = (segment.tokens as f64 * account.ratio).round() as u64;
            match segments.iter_mut().find(|(owner, _)| *owner == segment.owner) {
                Some((_, sum)) => *sum += tokens,
                None => segments.push((segment.owner.clone(), tokens)),
            }
        }
        segments
    }

    /// Returns the error of the last estimate relative to the vendor's count, 0 to 1; `None` before the second request.
    pub fn estimate_error(&self, session: &str) -> Option<f64> {
        self.lock().conversations.get(session)?.error
    }

    /// Forecasts the next request of a conversation; `None` before the first report.
    pub fn forecast(&self, session: &str) -> Option<RequestForecast> {
        self.lock().conversations.get(session)?.forecast()
    }

    /// Returns the break that other tools would cause in the next request; `None` if they are the same.
    pub fn preview_tools(&self, session: &str, tools: &[Arc<ToolDefinition>]) -> Option<CacheBreak> {
        let state = self.lock();
        let account = state.conversations.get(session)?;
        let before = account.parts.as_ref()?;
        let mut found = find_break(before, &before.with_tools(tools, &*self.counter))?;
        found.lost = account.calibrated(found.lost).min(account.last.cache_read + account.last.cache_write);
        Some(found).filter(|found| found.lost > 0)
    }

    /// Marks the beginning of a turn of the user in a conversation.
    pub fn mark(&self, session: &str) -> LedgerMark {
        let state = self.lock();
        let account = state.conversations.get(session);
        let forecast = account.filter(|account| account.turns.len() >= LEAST_TURNS).and_then(|account| {
            let requests = account.turns.iter().sum::<u64>() as f64 / account.turns.len() as f64;
            let next = account.forecast()?;
            Some((next.cost.map(|cost| cost * requests), (next.limited_tokens() as f64 * requests) as u64))
        });
        LedgerMark { requests: state.requests, of_session: account.map_or(0, |account| account.requests), forecast }
    }

    /// Returns the requests since the beginning of a turn, which ends with this.
    pub fn end_turn(&self, session: &str, mark: &LedgerMark) -> RequestCounts {
        let mut state = self.lock();
        let all = state.requests.saturating_sub(mark.requests);
        let account = state.open(session);
        let own = account.requests.saturating_sub(mark.of_session);
        if own > 0 {
            if account.turns.len() == MAX_TURNS {
                account.turns.pop_front();
            }
            account.turns.push_back(own);
        }
        RequestCounts { all, by_others: all.saturating_sub(own) }
    }

    /// Locks the state. Every change completes under one lock, so a panic leaves it consistent.
    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerState {
    /// Returns the account of a conversation. Forgets the one whose last request is the oldest if there are too many.
    fn open(&mut self, session: &str) -> &mut ConversationAccount {
        if self.order.back().is_none_or(|last| last != session) {
            self.order.retain(|other| other != session);
            self.order.push_back(session.to_owned());
            if self.order.len() > MAX_CONVERSATIONS
                && let Some(oldest) = self.order.pop_front()
            {
                self.conversations.remove(&oldest);
            }
        }
        self.conversations.entry(session.to_owned()).or_default()
    }
}

impl ConversationAccount {
    fn calibrated(&self, tokens: u64) -> u64 {
        (tokens as f64 * self.ratio).round() as u64
    }

    /// Estimates the vendor's count of a request: the last report, and an estimate of the segments since then.
    fn expected(&self, parts: &RequestParts, is_broken: bool) -> u64 {
        let Some(before) = self.parts.as_ref().filter(|_| !is_broken && self.last.context() > 0) else {
            return self.calibrated(parts.tokens());
        };
        let mut expected = self.last.context();
        for (at, segment) in parts.segments().iter().enumerate().skip(before.segments().len()) {
            let is_reply = at == before.segments().len() && matches!(*segment.owner, SegmentOwner::Reply(_));
            // The vendor has counted the reply.
            expected += if is_reply { self.last.output } else { self.calibrated(segment.tokens) };
        }
        expected
    }

    /// Compares a difference with the vendor's report: the tokens that the cache held and did not return.
    fn confirmed(&self, found: Option<CacheBreak>, usage: &Usage, now: SystemTime) -> Option<CacheBreak> {
        let cached = self.last.cache_read + self.last.cache_write;
        let missing = cached.saturating_sub(usage.cache_read);
        match found {
            Some(found) if cached + usage.cache_read == 0 => {
                Some(CacheBreak { lost: self.calibrated(found.lost), ..found })
            }
            Some(found) => Some(CacheBreak { lost: self.calibrated(found.lost).min(missing), ..found }),
            None if cached >= LEAST_CACHED && usage.context() > 0 && usage.cache_read < cached / 2 => {
                let is_late = now.duration_since(self.ended).is_ok_and(|pause| pause >= CACHE_LIFETIME);
                let change = if is_late { SegmentChange::Expired } else { SegmentChange::Evicted };
                Some(CacheBreak { owner: SegmentOwner::Vendor.into(), change, lost: missing })
            }
            None => None,
        }
    }

    fn forecast(&self) -> Option<RequestForecast> {
        if self.last.context() == 0 {
            return None;
        }
        let output = self.output.0 / self.output.1.max(1);
        Some(RequestForecast::after(&self.last, output, self.ended, &self.model, self.prices.as_deref()))
    }
}

impl LedgerMark {
    /// Returns whether a turn that began here cost so much more than its forecast that the user should know.
    pub fn is_exceeded(&self, spend: &Spend) -> bool {
        let dollars = spend.cost.map(|cost| cost.total());
        self.forecast.is_some_and(|forecast| crate::exceeds_forecast(dollars, spend.limited_tokens(), forecast))
    }
}

impl fmt::Debug for RequestLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestLedger({} requests)", self.lock().requests)
    }
}
