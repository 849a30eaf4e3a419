//! Assigns events to the items of a reply.
//!
//! OpenAI numbers the items of a reply and gives each an ID, and so does not need both. Compatible servers count from
//! anywhere, send only one of the two, or change an item's ID from event to event. An item that is mistaken for a new one
//! would repeat its text or its call.
//!
//! Everything comes several times: in deltas, at the end of a text, of its item, and of the reply. Any of these may be
//! missing, so each repetition is compared with the streamed text, and only its rest counts.

use crate::decode::{MAX_PARTS, too_many_parts};
use pinion_protocol::ProviderError;
use std::borrow::Cow;

/// The limit on the length of a stored ID, in bytes; a longer one counts as unknown.
const MAX_ID: usize = 4096;

/// The kind of an item that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
}

/// An event's identification of its item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ItemName<'a> {
    pub(super) at: Option<u64>,
    /// Empty when unknown, like `call_id`.
    pub(super) id: &'a str,
    pub(super) call_id: &'a str,
}

#[derive(Debug)]
struct StreamedItem {
    kind: ItemKind,
    at: Option<u64>,
    id: String,
    call_id: String,
    /// Its texts, in the order of their beginnings.
    texts: Vec<StreamedText>,
    is_done: bool,
}

/// The streamed part of a text.
#[derive(Debug)]
struct StreamedText {
    index: u64,
    length: usize,
    hash: u64,
    is_done: bool,
}

/// The part of a complete text that was not streamed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest<'a> {
    None,
    /// The text with this index continues.
    More(u64, &'a str),
}

/// The items of one reply, identified by the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct Items(Vec<StreamedItem>);

impl Items {
    /// Returns the item with this name, or a new one. Fails if there are too many.
    pub(super) fn get_or_begin(&mut self, kind: ItemKind, name: ItemName<'_>) -> Result<usize, ProviderError> {
        let key = match self.find(kind, name) {
            Some(key) => key,
            None => self.begin(kind)?,
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

    /// Adds an item. Fails if there are too many.
    pub(super) fn begin(&mut self, kind: ItemKind) -> Result<usize, ProviderError> {
        if self.0.len() == MAX_PARTS {
            return Err(too_many_parts());
        }
        let (id, call_id) = (String::new(), String::new());
        self.0.push(StreamedItem { kind, at: None, id, call_id, texts: Vec::new(), is_done: false });
        Ok(self.0.len() - 1)
    }

    /// Returns the item that ends, whose entire text has `size` bytes, or a new one.
    pub(super) fn end(&mut self, kind: ItemKind, name: ItemName<'_>, size: usize) -> Result<usize, ProviderError> {
        let unnamed = || self.rfind(kind, |item| !item.is_done && item.streamed() > 0 && item.streamed() == size);
        let key = match self.find(kind, name).or_else(unnamed) {
            Some(key) => key,
            None => self.get_or_begin(kind, name)?,
        };
        self.0[key].is_done = true;
        Ok(key)
    }

    /// Finds the items of a complete list, each with its kind, its name and the size of its text: by name, by size, or else
    /// in order. An item that is not found was not streamed.
    pub(super) fn pair(&self, list: &[(ItemKind, ItemName<'_>, usize)]) -> Vec<Option<usize>> {
        let mut pairs: Vec<Option<usize>> = vec![None; list.len()];
        let mut is_free = vec![true; self.0.len()];
        let by_name =
            |item: &StreamedItem, name: ItemName<'_>, _| same(&item.call_id, name.call_id) || same(&item.id, name.id);
        let by_size = |item: &StreamedItem, _: ItemName<'_>, size| size > 0 && item.streamed() == size;
        let in_order = |_: &StreamedItem, _: ItemName<'_>, _| true;
        let passes: [&Fits; 3] = [&by_name, &by_size, &in_order];
        for fits in passes {
            for (pair, (kind, name, size)) in pairs.iter_mut().zip(list).filter(|(pair, _)| pair.is_none()) {
                *pair = (0..self.0.len()).find(|key| {
                    let item = &self.0[*key];
                    is_free[*key] && item.kind == *kind && !item.conflicts(*name) && fits(item, *name, *size)
                });
                if let Some(key) = pair {
                    is_free[*key] = false;
                }
            }
        }
        pairs
    }

    /// Adds streamed text.
    pub(super) fn grow(&mut self, key: usize, index: u64, text: &str) -> Result<(), ProviderError> {
        let texts = &mut self.0[key].texts;
        let at = match texts.iter().rposition(|known| known.index == index) {
            Some(at) => at,
            None if texts.len() == MAX_PARTS => return Err(too_many_parts()),
            None => {
                texts.push(StreamedText { index, length: 0, hash: EMPTY, is_done: false });
                texts.len() - 1
            }
        };
        let known = &mut texts[at];
        (known.length, known.hash) = (known.length + text.len(), hashed(known.hash, text.as_bytes()));
        Ok(())
    }

    /// Returns the item with this name, or the one whose text was streamed, or a new one.
    pub(super) fn of_text(&mut self, kind: ItemKind, name: ItemName<'_>, text: &str) -> Result<usize, ProviderError> {
        let is_it = |item: &StreamedItem| item.texts.iter().any(|known| known.is(text));
        match self.find(kind, name).or_else(|| self.rfind(kind, is_it)) {
            Some(key) => Ok(key),
            None => self.get_or_begin(kind, name),
        }
    }

    /// Returns the rest of a text that is now complete. Several events may say so.
    pub(super) fn take_rest<'a>(&mut self, key: usize, index: u64, text: &'a str) -> Rest<'a> {
        let texts = &mut self.0[key].texts;
        let mut matched: Vec<bool> = texts.iter().map(|text| text.is_done).collect();
        let rest = match rest_of(texts, &mut matched, index, text) {
            Rest::More(new, _) if new == index && texts.iter().any(|text| text.is_done && text.index == index) => {
                Rest::None
            }
            rest => rest,
        };
        texts.iter_mut().zip(matched).for_each(|(text, is_done)| text.is_done = is_done);
        rest
    }

    /// Returns the rests of all texts of an item, which are now complete.
    pub(super) fn rests<'a>(&self, key: usize, list: &'a [(u64, Cow<'a, str>)]) -> Vec<Rest<'a>> {
        let texts = &self.0[key].texts;
        let mut matched = vec![false; texts.len()];
        list.iter().map(|(index, text)| rest_of(texts, &mut matched, *index, text)).collect()
    }

    /// Returns whether the name is known as a reasoning item's, and no message's.
    pub(super) fn is_reasoning(&self, name: ItemName<'_>) -> bool {
        self.find(ItemKind::Reasoning, name).is_some() && self.find(ItemKind::Message, name).is_none()
    }

    /// Returns the index of the item's last text.
    pub(super) fn last_index(&self, key: usize) -> Option<u64> {
        self.0[key].texts.iter().map(|text| text.index).max()
    }

    /// Returns whether text of the item was streamed.
    pub(super) fn has_streamed(&self, key: usize) -> bool {
        self.0[key].streamed() > 0
    }

    fn find(&self, kind: ItemKind, name: ItemName<'_>) -> Option<usize> {
        let is_unnamed = name.at.is_none() && name.id.is_empty() && name.call_id.is_empty();
        self.rfind(kind, |item| same(&item.call_id, name.call_id))
            .or_else(|| self.rfind(kind, |item| same(&item.id, name.id) && !item.conflicts(name)))
            .or_else(|| {
                self.rfind(kind, |item| {
                    name.at.is_some() && item.at == name.at && !item.is_done && !item.conflicts(name)
                })
            })
            .or_else(|| self.rfind(kind, |item| is_unnamed && !item.is_done))
    }

    fn rfind(&self, kind: ItemKind, is_it: impl Fn(&StreamedItem) -> bool) -> Option<usize> {
        self.0.iter().rposition(|item| item.kind == kind && is_it(item))
    }
}

impl StreamedItem {
    /// The size of the text that was streamed, in bytes.
    fn streamed(&self) -> usize {
        self.texts.iter().map(|text| text.length).sum()
    }

    /// Returns whether the name certainly belongs to another call.
    fn conflicts(&self, name: ItemName<'_>) -> bool {
        !name.call_id.is_empty() && !self.call_id.is_empty() && self.call_id != name.call_id
    }
}

/// Returns whether an item may be the one with this name and size.
type Fits = dyn Fn(&StreamedItem, ItemName<'_>, usize) -> bool;

fn same(a: &str, b: &str) -> bool {
    !a.is_empty() && a == b
}

/// Finds the streamed text that a complete one continues, and returns the rest: the same text at any index; the text
/// with its index; its beginning; or else any, because servers renumber and shorten them. `matched` marks the texts
/// that are taken. Only a text that is left over is new.
fn rest_of<'a>(texts: &[StreamedText], matched: &mut [bool], index: u64, text: &'a str) -> Rest<'a> {
    let is_equal = |known: &StreamedText| known.is(text);
    let has_index = |known: &StreamedText| known.index == index;
    let starts = |known: &StreamedText| known.starts(text);
    let tests: [&dyn Fn(&StreamedText) -> bool; 4] = [&is_equal, &has_index, &starts, &|_| true];
    let free = |fits: &&dyn Fn(&StreamedText) -> bool| (0..texts.len()).find(|at| !matched[*at] && fits(&texts[*at]));
    match tests.iter().find_map(free) {
        Some(at) => {
            matched[at] = true;
            let known = &texts[at];
            if starts(known) { Rest::from_text(known.index, &text[known.length..]) } else { Rest::None }
        }
        None if texts.iter().any(is_equal) => Rest::None,
        None => Rest::from_text(index, text),
    }
}

impl StreamedText {
    /// Returns whether this is the text, by length and hash.
    fn is(&self, text: &str) -> bool {
        self.length == text.len() && self.starts(text)
    }

    /// Returns whether the text begins with this one.
    fn starts(&self, text: &str) -> bool {
        let start = text.as_bytes().get(..self.length).filter(|_| text.is_char_boundary(self.length));
        start.is_some_and(|start| hashed(EMPTY, start) == self.hash)
    }
}

impl<'a> Rest<'a> {
    fn from_text(index: u64, text: &'a str) -> Self {
        if text.is_empty() { Self::None } else { Self::More(index, text) }
    }
}

/// The hash of an empty text.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a hash (FNV-1a) with more bytes.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(at: Option<u64>, id: &'a str, call_id: &'a str) -> ItemName<'a> {
        ItemName { at, id, call_id }
    }

    #[test]
    fn items_are_known_by_number_or_id() {
        let mut items = Items::default();
        let first = items.get_or_begin(ItemKind::Message, named(Some(1), "a", "")).unwrap();
        items.grow(first, 0, "hello").unwrap();
        assert_eq!(items.get_or_begin(ItemKind::Message, named(Some(1), "changed", "")).unwrap(), first);
        assert_eq!(items.get_or_begin(ItemKind::Message, named(None, "a", "")).unwrap(), first);
        assert_eq!(items.end(ItemKind::Message, named(Some(7), "other", ""), 5).unwrap(), first);
        assert_ne!(items.get_or_begin(ItemKind::Message, named(Some(1), "b", "")).unwrap(), first);
        assert_eq!(items.end(ItemKind::Message, named(Some(7), "a", ""), 5).unwrap(), first);
    }

    #[test]
    fn calls_with_the_same_number_are_distinguished_by_their_ids() {
        let mut items = Items::default();
        let first = items.get_or_begin(ItemKind::Call, named(Some(0), "", "c1")).unwrap();
        let second = items.get_or_begin(ItemKind::Call, named(Some(0), "", "c2")).unwrap();
        assert_ne!(first, second);
        assert_eq!(items.end(ItemKind::Call, named(Some(0), "", "c1"), 0).unwrap(), first);
        assert_eq!(items.end(ItemKind::Call, named(None, "", "c2"), 0).unwrap(), second);
        assert_ne!(items.get_or_begin(ItemKind::Message, named(Some(0), "", "")).unwrap(), second);
    }

    #[test]
    fn endless_items_are_an_error() {
        let mut items = Items::default();
        let mut begin = |n: usize| items.get_or_begin(ItemKind::Call, named(None, &n.to_string(), "")).is_ok();
        assert!((0..MAX_PARTS).all(&mut begin));
        assert!(!begin(MAX_PARTS) && begin(0));
    }

    #[test]
    fn long_ids_are_not_stored() {
        let mut items = Items::default();
        let id = "x".repeat(MAX_ID + 1);
        items.get_or_begin(ItemKind::Message, named(Some(0), &id, "")).unwrap();
        assert!(items.0[0].id.is_empty());
    }

    #[test]
    fn only_the_rest_of_a_complete_text_is_new() {
        let mut items = Items::default();
        let key = items.begin(ItemKind::Message).unwrap();
        items.grow(key, 1, "he").unwrap();
        let list = [(0, Cow::Borrowed("hello")), (1, Cow::Borrowed("more"))];
        assert_eq!(items.rests(key, &list), [Rest::More(1, "llo"), Rest::More(1, "more")]);
        assert_eq!(items.take_rest(key, 1, "he"), Rest::None);
        assert_eq!(items.take_rest(key, 1, "changed"), Rest::None);
        assert_eq!(items.take_rest(key, 2, "more"), Rest::More(2, "more"));
        let changed = [(0, Cow::Borrowed("another text")), (1, Cow::Borrowed("hé"))];
        assert_eq!(items.rests(key, &changed), [Rest::None, Rest::More(1, "hé")]);
    }

    #[test]
    fn complete_list_is_paired_by_name_by_size_and_in_order() {
        let mut items = Items::default();
        let first = items.get_or_begin(ItemKind::Message, named(Some(0), "a", "")).unwrap();
        let second = items.get_or_begin(ItemKind::Message, named(Some(1), "b", "")).unwrap();
        let call = items.get_or_begin(ItemKind::Call, named(Some(2), "", "c1")).unwrap();
        items.grow(first, 0, "four").unwrap();
        items.grow(second, 0, "seven!!").unwrap();
        let pairs = |list: &[(ItemKind, ItemName<'_>, usize)]| items.pair(list);
        let other = |call_id| (ItemKind::Call, named(None, "", call_id), 0);
        assert_eq!(pairs(&[(ItemKind::Message, named(None, "b", ""), 1), other("c2")]), [Some(second), None]);
        assert_eq!(pairs(&[(ItemKind::Message, named(None, "x", ""), 7), other("c1")]), [Some(second), Some(call)]);
        let message = |id| (ItemKind::Message, named(None, id, ""), 1);
        assert_eq!(pairs(&[message("x"), message("a"), message("y")]), [Some(second), Some(first), None]);
    }
}
