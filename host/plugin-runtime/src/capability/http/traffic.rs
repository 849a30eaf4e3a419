//! The requests of one call, as its ledger shows them.

use pinion_egress::{Exchange, Observer};
use pinion_protocol::Ledger;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Maximum number of hosts in a ledger.
const MAX_HOSTS: usize = 16;

/// Counts requests, redirects included, that sent at least one byte.
#[derive(Debug, Default)]
pub(super) struct Traffic(Mutex<HttpTrafficCounts>);

#[derive(Debug, Default)]
struct HttpTrafficCounts {
    requests: u64,
    sent: u64,
    received: u64,
    hosts: BTreeSet<String>,
}

impl Traffic {
    pub(super) fn enter(&self, ledger: &mut Ledger) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (ledger.requests, ledger.hosts) = (counts.requests, counts.hosts.clone());
        (ledger.bytes_sent, ledger.bytes_received) = (counts.sent, counts.received);
    }
}

impl Observer for Traffic {
    fn exchange_ended(&self, exchange: &Exchange) {
        if exchange.bytes_sent == 0 {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.requests += 1;
        counts.sent += exchange.bytes_sent;
        counts.received += exchange.bytes_received;
        if counts.hosts.len() < MAX_HOSTS {
            counts.hosts.insert(exchange.host.clone());
        }
    }
}
