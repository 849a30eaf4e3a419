//! Calls of operations.

use crate::document::{Operation, Place};
use crate::settings::Api;
use listing::clean;
use pinion_plugin_sdk::http::{Request, Response};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::{self, Map};
use std::collections::BTreeMap;

/// Everything that a call needs of its operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Route {
    /// The name of the interface in the config.
    pub(crate) api: String,
    base: String,
    method: String,
    path: String,
    arguments: Vec<(String, Place)>,
    /// Names in the schema that differ from the document's.
    names: BTreeMap<String, String>,
}

impl Route {
    pub(crate) fn of(api: &str, base: &str, operation: &Operation) -> Self {
        let Operation { method, path, arguments, input, .. } = operation;
        Self {
            api: api.to_owned(),
            base: base.to_owned(),
            method: method.clone(),
            path: path.clone(),
            arguments: arguments.clone(),
            names: input.renamed.clone(),
        }
    }

    /// Returns a text that changes when the operation reaches something else.
    pub(crate) fn identity(&self, api: &Api) -> String {
        json!([self, api.credential, api.headers]).to_string()
    }

    /// Calls the operation. `input` has the names of the schema.
    pub(crate) fn call(&self, api: &Api, input: Map<String, Value>) -> Result<Output> {
        let request = self.request(api, input)?;
        let url = request.url.clone();
        let response = request.send()?;
        Ok(self.output(api, &url, &response))
    }

    fn request(&self, api: &Api, input: Map<String, Value>) -> Result<Request> {
        let known = |name: String| self.names.get(&name).cloned().unwrap_or(name);
        let mut input: Map<String, Value> = input.into_iter().map(|(name, value)| (known(name), value)).collect();
        let (mut path, mut query, mut headers, mut body) = (self.path.clone(), Vec::new(), Vec::new(), None);
        for (name, place) in &self.arguments {
            let value = input.remove(name).filter(|value| !value.is_null() || *place == Place::Body);
            match (place, value) {
                (Place::Path, None) => return Err(Error::invalid_input(format!("`{name}` is missing"))),
                (Place::Path, Some(value)) => path = path.replace(&format!("{{{name}}}"), &segment(name, &value)?),
                (_, None) => {}
                (Place::Query, Some(Value::Array(items))) => {
                    query.extend(items.iter().map(|item| (name.as_str(), text(item))));
                }
                (Place::Query, Some(value)) => query.push((name.as_str(), text(&value))),
                (Place::Header, Some(value)) => headers.push((name.clone(), text(&value))),
                (Place::Body, Some(value)) => body = Some(value),
            }
        }
        if let Some(unknown) = input.keys().next() {
            return Err(Error::invalid_input(format!("there is no argument `{}`", clean::line(unknown, 80))));
        }
        if path.contains(['{', '}']) {
            return Err(Error::failed(format!(
                "the document has no parameter for the path `{}`",
                clean::line(&path, 200)
            )));
        }
        let pairs: Vec<String> =
            query.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        let question = if pairs.is_empty() { "" } else { "?" };
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = format!("{}{slash}{path}{question}{}", self.base, pairs.join("&"));
        let mut request = Request::new(self.method.as_str(), url);
        for (name, value) in headers.into_iter().chain(api.headers.clone()) {
            request = request.header(name, value);
        }
        if let Some(credential) = &api.credential {
            request = request.credential(credential.as_str());
        }
        match body {
            Some(body) => Ok(request.json(&body)?),
            None => Ok(request),
        }
    }

    /// Returns `METHOD URL → STATUS` and the body.
    fn output(&self, api: &Api, url: &str, response: &Response) -> Output {
        let kind = response.header("content-type").unwrap_or_default();
        let body = match std::str::from_utf8(&response.body) {
            Ok(text) if !text.contains('\0') => text.to_owned(),
            _ => format!("[{} bytes that are not text, {}]", response.body.len(), clean::line(kind, 100)),
        };
        let shown = clean::result(clean::head(&body, api.max_response_bytes));
        let left = body.len() - clean::head(&body, api.max_response_bytes).len();
        let more = if left > 0 { format!("\n[{left} more bytes]") } else { String::new() };
        let head = format!("{} {} → {}", self.method, clean::line(url, 2_048), response.status);
        let output = Output::text(format!("{head}\n\n{shown}{more}"));
        if response.status < 400 { output } else { output.failed() }
    }
}

/// Returns a value as a segment of a path.
fn segment(name: &str, value: &Value) -> Result<String> {
    let text = text(value);
    match text.as_str() {
        "" | "." | ".." => Err(Error::invalid_input(format!("`{name}` cannot be `{text}` in a path"))),
        text => Ok(encoded(text)),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text_of_item).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

fn text_of_item(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Encodes everything but the unreserved characters of RFC 3986.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Reads the arguments of a call.
pub(crate) fn arguments(input: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(input).map_err(Error::invalid_input)
}
