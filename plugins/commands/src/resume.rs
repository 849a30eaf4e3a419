//! `/resume`: resumes a session, or lists sessions.

use crate::arguments::one_word;
use pinion_plugin_sdk::prelude::*;

/// Returns the command.
pub(crate) fn command() -> Command {
    Command::new("resume", "Resume a session, or list sessions", |typed, _call| {
        Ok(vec![Action::Resume(one_word("resume", typed)?)])
    })
    .argument("[id]")
    .bare_action("choose-session")
}
