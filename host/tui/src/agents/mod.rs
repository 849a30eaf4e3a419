//! Everything that runs, as a tree: the conversation, its sub-agents and theirs, branches, and steps of a plan.
//!
//! [`AgentTree`] is one live model. It is fed with the same events as the transcript, in a conversation as well as from
//! the past of a session, so a continued conversation shows the same tree. `rows` draws it on the screen, and
//! [`AgentTree::page`] as Markdown for conversations in lines.

mod node;
mod page;
mod rows;
mod tree;

pub(crate) use self::node::{AgentNode, NodeKind};
pub use self::tree::AgentTree;
