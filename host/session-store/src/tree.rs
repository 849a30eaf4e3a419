//! The branches of a session's tree.
//!
//! Every entry is in exactly one [`Segment`]: the first is the branch on which the conversation stands, from its root;
//! each of the others is what another branch has of its own, after the entry at which it leaves. So a session is shown
//! whole without showing anything twice.

use crate::format::Kind;
use crate::id::EntryId;
use crate::index::Index;

/// A branch of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchInfo {
    /// Its last entry.
    pub leaf: EntryId,
    /// The entry at which it leaves a branch that is listed before it; none when it has a root of its own.
    pub from: Option<EntryId>,
    /// How many entries it has after that.
    pub entries: usize,
    /// The conversation stands at its last entry.
    pub is_current: bool,
}

/// What a branch has of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// At least one node, each the parent of the next.
    pub(crate) nodes: Vec<usize>,
    /// The parent of the first of them.
    pub(crate) from: Option<usize>,
    pub(crate) is_current: bool,
}

impl Index {
    /// The branches, the current one first, then in the order in which they end in the file. There is no current one
    /// when the conversation stands before its first entry.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        let mut is_taken = vec![false; self.nodes.len()];
        let mut segments = Vec::new();
        segments.extend(self.take_segment(self.position(), true, &mut is_taken));
        for leaf in self.leaves() {
            segments.extend(self.take_segment(Some(leaf), false, &mut is_taken));
        }
        segments
    }

    /// Walks up from a leaf until somebody else has been there.
    fn take_segment(&self, leaf: Option<usize>, is_current: bool, is_taken: &mut [bool]) -> Option<Segment> {
        let mut nodes = Vec::new();
        let mut next = leaf;
        while let Some(at) = next.filter(|at| is_taken.get(*at) == Some(&false)) {
            is_taken[at] = true;
            nodes.push(at);
            next = self.nodes[at].parent;
        }
        nodes.reverse();
        (!nodes.is_empty()).then_some(Segment { nodes, from: next, is_current })
    }

    /// The nodes that nothing follows. A `position` says where the conversation went on and is no part of it, except for
    /// those that lost what they followed and found it instead.
    fn leaves(&self) -> Vec<usize> {
        let mut has_children = vec![false; self.nodes.len()];
        let mut leaves = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if node.kind == Kind::Position && !has_children[at] {
                continue;
            }
            if !has_children[at] {
                leaves.push(at);
            }
            if let Some(parent) = node.parent {
                has_children[parent] = true;
            }
        }
        leaves.reverse();
        leaves
    }

    pub(crate) fn info(&self, segment: &Segment) -> Option<BranchInfo> {
        let leaf = self.id_of(segment.nodes.last().copied())?;
        let (from, entries) = (self.id_of(segment.from), segment.nodes.len());
        Some(BranchInfo { leaf, from, entries, is_current: segment.is_current })
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
