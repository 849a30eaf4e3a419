//! Notices of the plugin runtime, in words.

use crate::output::{Text, text};
use pinion_plugin_runtime::{Notice, NoticeEvent};

/// Describes what happened to a plugin, in one line.
pub(crate) fn describe(notice: &Notice) -> Text {
    let (plugin, source) = (&notice.plugin, &notice.source);
    match &notice.event {
        NoticeEvent::Compiling => text!("compiling plugin `{}`, once; other plugins are ready", plugin),
        NoticeEvent::Loaded { generation: 1, version } => text!("loaded plugin `{}` {}", plugin, version),
        NoticeEvent::Loaded { generation, version } => {
            text!("reloaded plugin `{}` {} (generation {})", plugin, version, generation)
        }
        NoticeEvent::Refused(error) => {
            text!("! plugin `{}` ({}) was not loaded: {}", plugin, source, Text::block(format_args!("{error:#}")))
        }
        NoticeEvent::HeldBack(why) => {
            text!("! plugin `{}` ({}) does not have all its grants: {}", plugin, source, Text::block(why))
        }
        NoticeEvent::Offer(why) => {
            text!("! plugin `{}` ({}) does not offer all its tools: {}", plugin, source, Text::block(why))
        }
        NoticeEvent::HookFailed { point, problem } => {
            text!("! the hook `{}` of plugin `{}` failed: {}", point.name(), plugin, Text::block(problem))
        }
        NoticeEvent::Removed => text!("removed plugin `{}`", plugin),
    }
}

/// Describes a notice that reports a problem, or why a run waits.
pub(crate) fn describe_problem(notice: &Notice) -> Option<Text> {
    let is_problem = matches!(
        notice.event,
        NoticeEvent::Refused(_)
            | NoticeEvent::HeldBack(_)
            | NoticeEvent::Offer(_)
            | NoticeEvent::HookFailed { .. }
            | NoticeEvent::Compiling
    );
    is_problem.then(|| describe(notice))
}
