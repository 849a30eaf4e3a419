//! Connections of the client, with TLS if the URL asks for it.

use crate::dial::dial;
use crate::error::ExchangeFailure;
use crate::limits::Clock;
use crate::metered::Metered;
use crate::network::Network;
use crate::observer::ExchangeReport;
use crate::policy::Covering;
use crate::target::{RequestTarget, Scheme};
use crate::tls::{ConnectionStream, Tls};
use std::sync::Arc;

/// A connection, with or without TLS.
pub(super) type Stream = Metered<Box<dyn ConnectionStream>>;

pub(super) struct Connector {
    network: Arc<dyn Network>,
    tls: Tls,
}

impl Connector {
    pub(super) fn new(network: Arc<dyn Network>, tls: Tls) -> Self {
        Self { network, tls }
    }

    /// Connects to the host of `target`, if the rules that cover the request admit all of its addresses.
    pub(super) async fn connect(
        &self,
        target: &RequestTarget,
        covering: &Covering<'_>,
        clock: &Clock,
        report: &mut ExchangeReport,
    ) -> Result<Stream, ExchangeFailure> {
        let check = |address| covering.check(target, address);
        let (stream, address) = dial(&*self.network, target, check, clock).await?;
        report.exchange.address = Some(address);
        let stream: Box<dyn ConnectionStream> = match target.scheme() {
            Scheme::Http => Box::new(stream),
            Scheme::Https => self.tls.connect(target, stream, clock).await?,
        };
        Ok(Metered::new(stream, report.meter.clone()))
    }
}
