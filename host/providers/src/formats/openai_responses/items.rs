//! Assigns events to the items of a reply.
//!
//! OpenAI numbers the items of a reply and gives each an ID, and so does not need both. Compatible servers count from
//! anywhere, send only one of the two, or change an item's ID from event to event. An item that is mistaken for a new one
//! would repeat its text or its call.

use crate::decode::{MAX_PARTS, too_many_parts};
use pinion_protocol::ProviderError;

/// The limit on the length of a stored ID, in bytes; a longer one counts as unknown.
const MAX_ID: usize = 4096;

/// The kind of an item that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call,
}

/// An event's identification of its item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Name<'a> {
    pub(super) at: Option<u64>,
    /// Empty when unknown, like `call_id`.
    pub(super) id: &'a str,
    pub(super) call_id: &'a str,
}

#[derive(Debug)]
struct Item {
    kind: Kind,
    at: Option<u64>,
    id: String,
    call_id: String,
    /// The size of the text that was streamed, in bytes.
    streamed: usize,
    is_done: bool,
}

/// The items of one reply, identified by the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Items(Vec<Item>);

impl Items {
    /// Returns the item with this name, or a new one. Fails if there are too many.
    pub(super) fn get_or_begin(&mut self, kind: Kind, name: Name<'_>) -> Result<usize, ProviderError> {
        let key = match self.find(kind, name) {
            Some(key) => key,
            None if self.0.len() == MAX_PARTS => return Err(too_many_parts()),
            None => {
                let (id, call_id) = (String::new(), String::new());
                self.0.push(Item { kind, at: None, id, call_id, streamed: 0, is_done: false });
                self.0.len() - 1
            }
        };
        let item = &mut self.0[key];
        item.at = item.at.or(name.at);
        for (known, new) in [(&mut item.id, name.id), (&mut item.call_id, name.call_id)] {
            if known.is_empty() && new.len() <= MAX_ID {
                new.clone_into(known);
            }
        }
        Ok(key)
    }

    /// Returns the item that ends, whose entire text has `size` bytes, or a new one.
    pub(super) fn end(&mut self, kind: Kind, name: Name<'_>, size: usize) -> Result<usize, ProviderError> {
        let unnamed = || self.rfind(kind, |item| !item.is_done && item.streamed > 0 && item.streamed == size);
        let key = match self.find(kind, name).or_else(unnamed) {
            Some(key) => key,
            None => self.get_or_begin(kind, name)?,
        };
        self.0[key].is_done = true;
        Ok(key)
    }

    /// Counts streamed text.
    pub(super) fn grow(&mut self, key: usize, size: usize) {
        self.0[key].streamed += size;
    }

    /// Returns whether text of the item was streamed.
    pub(super) fn has_streamed(&self, key: usize) -> bool {
        self.0[key].streamed > 0
    }

    fn find(&self, kind: Kind, name: Name<'_>) -> Option<usize> {
        let same = |a: &str, b: &str| !a.is_empty() && a == b;
        let conflicts =
            |item: &Item| !name.call_id.is_empty() && !item.call_id.is_empty() && item.call_id != name.call_id;
        let is_unnamed = name.at.is_none() && name.id.is_empty() && name.call_id.is_empty();
        self.rfind(kind, |item| same(&item.call_id, name.call_id))
            .or_else(|| self.rfind(kind, |item| same(&item.id, name.id) && !conflicts(item)))
            .or_else(|| {
                self.rfind(kind, |item| name.at.is_some() && item.at == name.at && !item.is_done && !conflicts(item))
            })
            .or_else(|| self.rfind(kind, |item| is_unnamed && !item.is_done))
    }

    fn rfind(&self, kind: Kind, is_it: impl Fn(&Item) -> bool) -> Option<usize> {
        self.0.iter().rposition(|item| item.kind == kind && is_it(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(at: Option<u64>, id: &'a str, call_id: &'a str) -> Name<'a> {
        Name { at, id, call_id }
    }

    #[test]
    fn items_are_known_by_number_or_id() {
        let mut items = Items::default();
        let first = items.get_or_begin(Kind::Message, named(Some(1), "a", "")).unwrap();
        items.grow(first, 5);
        assert_eq!(items.get_or_begin(Kind::Message, named(Some(1), "changed", "")).unwrap(), first);
        assert_eq!(items.get_or_begin(Kind::Message, named(None, "a", "")).unwrap(), first);
        assert_eq!(items.end(Kind::Message, named(Some(7), "other", ""), 5).unwrap(), first);
        assert_ne!(items.get_or_begin(Kind::Message, named(Some(1), "b", "")).unwrap(), first);
        assert_eq!(items.end(Kind::Message, named(Some(7), "a", ""), 5).unwrap(), first);
    }

    #[test]
    fn calls_with_the_same_number_are_distinguished_by_their_ids() {
        let mut items = Items::default();
        let first = items.get_or_begin(Kind::Call, named(Some(0), "", "c1")).unwrap();
        let second = items.get_or_begin(Kind::Call, named(Some(0), "", "c2")).unwrap();
        assert_ne!(first, second);
        assert_eq!(items.end(Kind::Call, named(Some(0), "", "c1"), 0).unwrap(), first);
        assert_eq!(items.end(Kind::Call, named(None, "", "c2"), 0).unwrap(), second);
        assert_ne!(items.get_or_begin(Kind::Message, named(Some(0), "", "")).unwrap(), second);
    }

    #[test]
    fn endless_items_are_an_error() {
        let mut items = Items::default();
        let mut begin = |n: usize| items.get_or_begin(Kind::Call, named(None, &n.to_string(), "")).is_ok();
        assert!((0..MAX_PARTS).all(&mut begin));
        assert!(!begin(MAX_PARTS) && begin(0));
    }

    #[test]
    fn long_ids_are_not_stored() {
        let mut items = Items::default();
        let id = "x".repeat(MAX_ID + 1);
        items.get_or_begin(Kind::Message, named(Some(0), &id, "")).unwrap();
        assert!(items.0[0].id.is_empty());
    }
}
