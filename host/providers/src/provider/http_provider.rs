//! A provider over HTTP: a wire format, an endpoint, and a key.

use super::caller::{Caller, RequestDraft};
use super::refused_images::RefusedImages;
use crate::formats::WireFormat;
use crate::models::{ModelSpec, ModelTable};
use crate::transport::exchange;
use crate::vendors::Endpoint;
use futures_util::stream::{self, StreamExt};
use pinion_protocol::{EventStream, Provider, ProviderError, Request};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A provider over HTTP.
#[derive(Debug)]
pub(crate) struct HttpProvider {
    pub(crate) name: &'static str,
    pub(crate) format: WireFormat,
    pub(crate) endpoint: Endpoint,
    pub(crate) models: Arc<ModelTable>,
    pub(crate) caller: Arc<Caller>,
    pub(super) refused_images: Arc<RefusedImages>,
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        self.name
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let seed = format!("call_{:012x}", fastrand::u64(..1 << 48));
        let request = self.refused_images.without_refused(request);
        let model = self.models.find(self.name, &request.model);
        match self.draft(&request, &model, seed).and_then(|draft| self.caller.clone().begin(draft)) {
            Ok((id_seed, call)) => {
                let reply = exchange(call.open(), self.format.decoder(id_seed), token);
                self.refused_images.watch(&request, &model, reply)
            }
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

impl HttpProvider {
    /// Builds the part of a request that does not depend on the key.
    fn draft(&self, request: &Request, model: &ModelSpec, id_seed: String) -> Result<RequestDraft, ProviderError> {
        let body = self.format.body(request, model, self.name)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, self.format.accept());
        for (name, value) in self.format.headers(request, model) {
            headers.insert(name.clone(), plain_value(&name, &value)?);
        }
        Ok(RequestDraft {
            url: self.endpoint.url(&request.model),
            model: request.model.clone(),
            path: self.endpoint.tail(&request.model),
            headers,
            body: body.into(),
            key: request.options.api_key.clone(),
            id_seed,
        })
    }
}

fn plain_value(name: &HeaderName, value: &str) -> Result<HeaderValue, ProviderError> {
    let message = || format!("the header `{name}` contains a character that is not allowed in a header");
    HeaderValue::from_str(value).map_err(|_| ProviderError::Api { status: None, message: message() })
}
