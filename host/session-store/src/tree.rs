//! The branches of a session's tree.
//!
//! Every entry is in exactly one [`BranchSegment`]. The first segment is the current branch from its root; each of the others
//! is the part of another branch after the entry where it leaves. So a session is shown in full without showing
//! anything twice.

use crate::format::EntryKind;
use crate::id::EntryId;
use crate::index::EntryIndex;

/// A branch of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchInfo {
    /// The last entry of the branch.
    pub leaf: EntryId,
    /// The entry where it leaves a branch listed before it; `None` when it has a separate root.
    pub from: Option<EntryId>,
    /// The number of its entries after that.
    pub entries: usize,
    /// True for the current branch: the conversation is at its last entry.
    pub is_current: bool,
}

/// The entries that only one branch has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BranchSegment {
    /// The nodes of the segment, at least one, each the parent of the next.
    pub(crate) nodes: Vec<usize>,
    /// The parent of the first of them.
    pub(crate) from: Option<usize>,
    pub(crate) is_current: bool,
}

impl EntryIndex {
    /// Returns the segments, the current branch first, then in the order of their ends in the file. There is no current
    /// one when the conversation is before its first entry.
    pub(crate) fn segments(&self) -> Vec<BranchSegment> {
        let mut is_taken = vec![false; self.nodes.len()];
        let mut segments = Vec::new();
        segments.extend(self.take_segment(self.position(), true, &mut is_taken));
        for leaf in self.leaves() {
            segments.extend(self.take_segment(Some(leaf), false, &mut is_taken));
        }
        segments
    }

    /// Walks up from a leaf to the first node of another segment.
    fn take_segment(&self, leaf: Option<usize>, is_current: bool, is_taken: &mut [bool]) -> Option<BranchSegment> {
        let mut nodes = Vec::new();
        let mut next = leaf;
        while let Some(at) = next.filter(|at| is_taken.get(*at) == Some(&false)) {
            is_taken[at] = true;
            nodes.push(at);
            next = self.nodes[at].parent;
        }
        nodes.reverse();
        (!nodes.is_empty()).then_some(BranchSegment { nodes, from: next, is_current })
    }

    /// Returns the nodes without followers. A `position` only moves the conversation and does not count, except for one
    /// that entries follow because their own parent is lost.
    fn leaves(&self) -> Vec<usize> {
        let mut has_children = vec![false; self.nodes.len()];
        let mut leaves = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if node.kind == EntryKind::Position && !has_children[at] {
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

    pub(crate) fn info(&self, segment: &BranchSegment) -> Option<BranchInfo> {
        let leaf = self.id_of(segment.nodes.last().copied())?;
        let (from, entries) = (self.id_of(segment.from), segment.nodes.len());
        Some(BranchInfo { leaf, from, entries, is_current: segment.is_current })
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
