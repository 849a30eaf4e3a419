//! Approval of tool calls: the user's rules, the log of decisions, and the user who is asked.

pub mod audit;
pub mod permissions;
pub mod stored;
mod tool_rules;

use pinion_agent::Approver;
use pinion_agent::dialog::UserInterface;

/// A user who may be asked about calls and by plugins.
pub trait Person: Approver + UserInterface {}

impl<T: Approver + UserInterface> Person for T {}
