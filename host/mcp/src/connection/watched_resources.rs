//! Resources that were read over a connection, and which of them the server says to have changed since.

#![allow(
    deprecated,
    reason = "older servers are subscribed to resource by resource, which the protocol has deprecated"
)]

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinion_protocol::text::one_line;
use rmcp::model::{ClientRequest, SubscribeRequest, SubscribeRequestParams};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Maximum resources that are watched; the one that was read longest ago makes room.
const MAX_WATCHED: usize = 64;
/// Maximum addresses in a note, and characters of one.
const MAX_NAMED: usize = 8;
const MAX_ADDRESS: usize = 300;

/// The resources that were read over a connection. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    resources: Arc<Mutex<Resources>>,
    /// Fires when a further resource is watched.
    pub(crate) added: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Resources {
    read: VecDeque<String>,
    changed: BTreeSet<String>,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Resources> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a resource was read now. Returns whether it was not watched before.
    pub(super) fn read(&self, uri: &str) -> bool {
        let mut resources = self.lock();
        resources.changed.remove(uri);
        let before = resources.read.iter().position(|read| read == uri);
        if let Some(at) = before {
            resources.read.remove(at);
        } else if resources.read.len() == MAX_WATCHED
            && let Some(oldest) = resources.read.pop_front()
        {
            resources.changed.remove(&oldest);
        }
        resources.read.push_back(uri.to_owned());
        drop(resources);
        if before.is_none() {
            self.added.notify_one();
        }
        before.is_none()
    }

    /// Notes that the server announced a change. Resources that were not read do not count.
    pub(crate) fn changed(&self, uri: &str) {
        let mut resources = self.lock();
        if resources.read.iter().any(|read| read == uri) {
            resources.changed.insert(uri.to_owned());
        }
    }

    /// Returns the resources that are watched.
    pub(crate) fn all(&self) -> Vec<String> {
        self.lock().read.iter().cloned().collect()
    }

    /// Puts a note in front of the content of a result, if resources changed since they were read. Each change is noted once.
    pub(super) fn note(&self, result: String) -> String {
        let changed = self.lock().changed.clone();
        if changed.is_empty() {
            return result;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&result) else { return result };
        let named: Vec<String> = changed.iter().take(MAX_NAMED).map(|uri| one_line(uri, MAX_ADDRESS)).collect();
        let more = changed.len() - named.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let text = format!("[these resources of the server changed since they were read: {}{more}]", named.join(", "));
        let member =
            |value: &mut Value, name: &str, entry: Value| match value.get_mut(name).and_then(Value::as_array_mut) {
                // Without content, the model reads the structured result.
                Some(content) if !content.is_empty() => {
                    content.insert(0, entry);
                    true
                }
                _ => false,
            };
        let resource = json!({ "uri": named.first(), "mimeType": "text/plain", "text": text });
        let is_noted = member(&mut value, "content", json!({ "type": "text", "text": text }))
            || member(&mut value, "contents", resource);
        if !is_noted {
            return result;
        }
        self.lock().changed.retain(|uri| !changed.contains(uri));
        value.to_string()
    }
}

/// Returns the request that subscribes to a resource before protocol 2026-07-28.
pub(super) fn subscribe(uri: &str) -> ClientRequest {
    SubscribeRequest::new(SubscribeRequestParams::new(uri)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_a_resource_that_was_read_is_noted_once() {
        let watched = Watched::default();
        let result = || json!({ "content": [{ "type": "text", "text": "fine" }] }).to_string();
        watched.changed("a://never/read");
        assert!(watched.read("a://b\u{1b}[2J") && !watched.read("a://b\u{1b}[2J"));
        assert_eq!(watched.note(result()), result());
        watched.changed("a://b\u{1b}[2J");
        let structured = r#"{"content":[],"structuredContent":{}}"#;
        assert_eq!(watched.note(structured.to_owned()), structured);
        let noted = watched.note(result());
        assert!(noted.contains("changed since they were read: a://b␛[2J]") && noted.contains("fine"), "{noted}");
        assert_eq!(watched.note(result()), result());
        // Reading a resource again shows its change.
        watched.changed("a://b\u{1b}[2J");
        watched.read("a://b\u{1b}[2J");
        assert_eq!(watched.note(result()), result());
    }

    #[test]
    fn number_of_resources_is_bounded() {
        let watched = Watched::default();
        assert!((0..MAX_WATCHED + 9).all(|n| watched.read(&format!("a://{n}"))));
        assert_eq!((watched.all().len(), watched.all()[0].as_str()), (MAX_WATCHED, "a://9"));
        (0..MAX_WATCHED + 9).for_each(|n| watched.changed(&format!("a://{n}")));
        let noted = watched.note(json!({ "contents": [{ "uri": "x", "text": "fine" }] }).to_string());
        assert!(noted.contains(", and 56 more]") && noted.len() < 3_000, "{noted}");
    }
}
