//! Requests to a provider of the table, and their outcome.

use crate::support::tls::authority;
use crate::support::vendors::{KEY, Vendor};
use crate::support::{assert_well_formed, request, text};
use futures_util::StreamExt;
use pinion_protocol::{EventStream, Provider, ProviderError, StreamEvent};
use pinion_providers::{ModelTable, ProviderConfig, ProviderContext, build_with};
use secrecy::SecretString;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

pub(crate) fn config(vendor: &Vendor, base_url: Option<&str>) -> ProviderConfig {
    ProviderConfig {
        name: vendor.name.to_owned(),
        base_url: base_url.map(|url| url.trim_end_matches("/v1").to_owned()),
        api_key: Some(SecretString::from(KEY)),
        ..ProviderConfig::default()
    }
}

pub(crate) fn context() -> ProviderContext {
    ProviderContext {
        region: None,
        project: Some("my-project".to_owned()),
        certificates: authority(),
        ..ProviderContext::default()
    }
}

pub(crate) fn built(vendor: &Vendor, config: ProviderConfig, context: ProviderContext) -> Arc<dyn Provider> {
    let region = (vendor.name == "bedrock").then(|| "us-east-1".to_owned());
    build_with(config, ProviderContext { region, ..context }, ModelTable::builtin()).unwrap()
}

pub(crate) fn asked_at(vendor: &Vendor, url: &str) -> EventStream {
    let provider = built(vendor, config(vendor, Some(url)), context());
    provider.stream(request(vendor.model, vec![text("hi")]), CancellationToken::new())
}

pub(crate) async fn all(stream: EventStream) -> (Vec<StreamEvent>, Option<ProviderError>) {
    let items: Vec<_> = stream.collect().await;
    let error = items.iter().find_map(|item| item.as_ref().err().cloned());
    let events: Vec<StreamEvent> = items.into_iter().filter_map(Result::ok).collect();
    assert_well_formed(&events, error.as_ref());
    (events, error)
}

pub(crate) fn head(vendor: &Vendor) -> String {
    format!("content-type: {}\r\n", vendor.content_type)
}

/// A file in memory.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
