//! A provider whose requests are accounted for.

use crate::ledger::{RequestLedger, RequestTicket};
use futures_util::StreamExt as _;
use pinion_protocol::{EventStream, PriceList, Provider, Request, StreamEvent, Usage};
use std::sync::Arc;
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

/// A provider that takes note of each request in a [`RequestLedger`]. Requests, events and errors remain unchanged.
pub struct AttributedProvider {
    inner: Arc<dyn Provider>,
    ledger: Arc<RequestLedger>,
    prices: Option<Arc<dyn PriceList>>,
}

impl AttributedProvider {
    /// Wraps a provider. `prices` are the prices of its model, if they are known.
    pub fn new(inner: Arc<dyn Provider>, ledger: Arc<RequestLedger>, prices: Option<Arc<dyn PriceList>>) -> Self {
        Self { inner, ledger, prices }
    }
}

impl Provider for AttributedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let ticket = self.ledger.begin(self.inner.name(), &request, self.prices.clone());
        let mut reply = ObservedReply {
            ledger: self.ledger.clone(),
            ticket: Some(ticket),
            model: request.model.clone(),
            usage: Usage::default(),
        };
        self.inner.stream(request, token).inspect(move |event| reply.observe(event.as_ref().ok())).boxed()
    }
}

/// A reply while it arrives.
struct ObservedReply {
    ledger: Arc<RequestLedger>,
    ticket: Option<RequestTicket>,
    model: String,
    usage: Usage,
}

impl ObservedReply {
    fn observe(&mut self, event: Option<&StreamEvent>) {
        match event {
            Some(StreamEvent::Start { model: Some(model) }) => self.model.clone_from(model),
            Some(StreamEvent::Usage(usage)) => self.usage = *usage,
            Some(StreamEvent::End { .. }) => {
                if let Some(ticket) = self.ticket.take() {
                    self.ledger.finish(ticket, &self.model, &self.usage, SystemTime::now());
                }
            }
            _ => {}
        }
    }
}
