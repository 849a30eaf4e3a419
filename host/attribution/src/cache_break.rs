//! The first difference between two requests of a conversation.

use crate::owner::SegmentOwner;
use crate::request_parts::{RequestParts, Segment};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A difference that keeps the vendor from reading the rest of a request from its cache.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheBreak {
    /// The owner of the first segment that differs.
    pub owner: Arc<SegmentOwner>,
    /// The difference.
    pub change: SegmentChange,
    /// Estimated tokens behind it that the request before contained too, and that are paid in full again.
    pub lost: u64,
}

/// A difference between a segment and its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentChange {
    /// It is new.
    Added,
    /// It was removed.
    Removed,
    /// It moved.
    Reordered,
    /// Its text changed.
    Edited,
    /// The schema of a tool changed.
    Schema,
    /// Only digits of its text changed, as a clock or a counter does.
    Clock,
    /// Another one was chosen.
    Switched,
    /// A compaction replaced messages with it.
    Compacted,
    /// A compaction shortened it.
    Shortened,
    /// The conversation returned to an earlier point.
    Rewound,
    /// Nothing changed, but more time passed than the vendor keeps its cache.
    Expired,
    /// Nothing changed, and the vendor dropped its cache earlier.
    Evicted,
}

impl fmt::Display for CacheBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = &self.owner;
        match self.change {
            SegmentChange::Added => write!(f, "{owner} was added"),
            SegmentChange::Removed => write!(f, "{owner} was removed"),
            SegmentChange::Reordered => write!(f, "{owner} is at another place"),
            SegmentChange::Edited => write!(f, "{owner} changed"),
            SegmentChange::Schema => write!(f, "{owner} has another schema"),
            SegmentChange::Clock => write!(f, "{owner} contains a number or a time that changes"),
            SegmentChange::Switched => write!(f, "the model was switched to {owner}"),
            SegmentChange::Compacted => write!(f, "{owner} replaced messages"),
            SegmentChange::Shortened => write!(f, "{owner} was shortened by a compaction"),
            SegmentChange::Rewound => write!(f, "the conversation returned to before {owner}"),
            SegmentChange::Expired => write!(f, "{owner} expired: too much time passed between two requests"),
            SegmentChange::Evicted => write!(f, "{owner} was empty, although the request begins as before"),
        }
    }
}

/// Finds the first difference between a request and the request before it; `None` if the request only continues it.
pub fn find_break(before: &RequestParts, after: &RequestParts) -> Option<CacheBreak> {
    let (old, new) = (before.segments(), after.segments());
    let at = old.iter().zip(new).take_while(|(old, new)| old.digest == new.digest).count();
    let old_segment = old.get(at)?;
    let Some(new_segment) = new.get(at) else {
        return Some(CacheBreak { owner: old_segment.owner.clone(), change: SegmentChange::Rewound, lost: 0 });
    };
    let known: HashSet<u128> = old[at..].iter().map(|segment| segment.digest).collect();
    let lost = new[at..].iter().filter(|segment| known.contains(&segment.digest)).map(|segment| segment.tokens).sum();
    let pair = DifferingPair { before, after, at, old: old_segment, new: new_segment };
    let (owner, change) = match (&*old_segment.owner, &*new_segment.owner) {
        (_, SegmentOwner::Model(_)) => (new_segment.owner.clone(), SegmentChange::Switched),
        _ if at < before.messages_at() || at < after.messages_at() => pair.fixed_change(),
        _ => pair.message_change(),
    };
    Some(CacheBreak { owner, change, lost })
}

/// Two segments at the same place with different digests.
struct DifferingPair<'a> {
    before: &'a RequestParts,
    after: &'a RequestParts,
    at: usize,
    old: &'a Segment,
    new: &'a Segment,
}

impl DifferingPair<'_> {
    /// Names the difference in the part that every request contains.
    fn fixed_change(&self) -> (Arc<SegmentOwner>, SegmentChange) {
        let Self { before, after, old, new, .. } = self;
        if old.owner == new.owner {
            let change = match &*new.owner {
                SegmentOwner::Tool { .. } if old.schema != new.schema => SegmentChange::Schema,
                _ => self.text_change(),
            };
            return (new.owner.clone(), change);
        }
        let has = |parts: &RequestParts, owner: &SegmentOwner| {
            parts.segments().iter().any(|segment| *segment.owner == *owner)
        };
        if !has(after, &old.owner) {
            return (whole_server(&old.owner, after), SegmentChange::Removed);
        }
        if !has(before, &new.owner) {
            return (whole_server(&new.owner, before), SegmentChange::Added);
        }
        (new.owner.clone(), SegmentChange::Reordered)
    }

    /// Names the difference in the conversation.
    fn message_change(&self) -> (Arc<SegmentOwner>, SegmentChange) {
        let Self { before, after, at, old, new } = *self;
        let contains = |parts: &RequestParts, digest| parts.segments()[at..].iter().any(|part| part.digest == digest);
        if *new.owner == SegmentOwner::Summary {
            return (new.owner.clone(), SegmentChange::Compacted);
        }
        let is_result = matches!(*old.owner, SegmentOwner::CallResult { .. });
        if is_result && old.owner == new.owner && new.tokens < old.tokens {
            return (old.owner.clone(), SegmentChange::Shortened);
        }
        if contains(after, old.digest) {
            return (new.owner.clone(), SegmentChange::Added);
        }
        if contains(before, new.digest) {
            return (old.owner.clone(), SegmentChange::Removed);
        }
        if at + 1 == after.segments().len() && at + 1 < before.segments().len() {
            return (old.owner.clone(), SegmentChange::Rewound);
        }
        (new.owner.clone(), self.text_change())
    }

    /// Distinguishes a clock from other changes of a text.
    fn text_change(&self) -> SegmentChange {
        let (old, new) = (self.before.text(self.at), self.after.text(self.at));
        let is_clock =
            old != new && old.len().abs_diff(new.len()) <= MAX_DIGITS && without_digits(&old) == without_digits(&new);
        if is_clock { SegmentChange::Clock } else { SegmentChange::Edited }
    }
}

/// Bytes by which a text may grow when only its numbers change.
const MAX_DIGITS: usize = 20;

/// Returns a text without its digits.
fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Returns the server of a tool if `others` has no tool of it, otherwise the tool.
fn whole_server(owner: &Arc<SegmentOwner>, others: &RequestParts) -> Arc<SegmentOwner> {
    let SegmentOwner::Tool { source: server, is_server: true, .. } = &**owner else { return owner.clone() };
    let is_of_server = |segment: &Segment| matches!(&*segment.owner, SegmentOwner::Tool { source, is_server: true, .. } if source == server);
    if others.segments().iter().any(is_of_server) { owner.clone() } else { SegmentOwner::Server(server.clone()).into() }
}
