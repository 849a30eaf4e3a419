//! Ways in which people take part in runs: they watch events, send messages, approve calls and answer dialogs.
//!
//! The loop (`pinion-agent`) uses these types and re-exports them. Nothing here knows the loop, a terminal or a model:
//! a person is a receiver of events, an [`Approver`](pinion_protocol::approval::Approver) and a
//! [`UserInterface`](pinion_protocol::dialog::UserInterface).

pub mod approval;
pub mod channel;
mod question_time;
pub mod queue;
