//! Notices of the plugin runtime: their words, and their way to the terminal.

use crate::output::{Text, text};
use crate::screen::Screen;
use pinion_plugin_runtime::{Notice, NoticeEvent};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Describes an event of a plugin, in one line.
pub fn describe(notice: &Notice) -> Text {
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
        NoticeEvent::LeftOut(what) => {
            text!("! plugin `{}` ({}) was loaded without the {}", plugin, source, Text::block(what))
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

/// Tells why a command that loads plugins to show or to call them waits.
pub fn announce_compiling(screen: &dyn Screen, notice: &Notice) {
    if matches!(notice.event, NoticeEvent::Compiling) {
        screen.note(&text!("compiling plugin `{}`, once; later loads take milliseconds", notice.plugin));
    }
}

/// Describes a notice that reports a problem, or why a run waits.
pub fn describe_problem(notice: &Notice) -> Option<Text> {
    let is_problem = matches!(
        notice.event,
        NoticeEvent::Refused(_)
            | NoticeEvent::HeldBack(_)
            | NoticeEvent::LeftOut(_)
            | NoticeEvent::Offer(_)
            | NoticeEvent::HookFailed { .. }
            | NoticeEvent::Compiling
    );
    is_problem.then(|| describe(notice))
}

/// Notices about plugins on their way to the terminal.
#[derive(Default)]
pub struct PluginNotices {
    waiting: Mutex<Vec<Text>>,
    /// Plugins that are gone or were reloaded since the last look: they no longer stand behind the content that the UI
    /// shows of them.
    ended: Mutex<Vec<String>>,
    /// Wakes the current owner of the terminal: the editor, the renderer or the full-screen UI.
    pub arrived: Notify,
    is_started: AtomicBool,
}

impl PluginNotices {
    /// Adds a notice and wakes the owner of the terminal.
    pub fn push_notice(&self, notice: &Notice) {
        if matches!(notice.event, NoticeEvent::Removed | NoticeEvent::Loaded { generation: 2.., .. }) {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(notice.plugin.clone());
        }
        // The user expects the first load, unless the conversation began without it.
        let is_expected = matches!(notice.event, NoticeEvent::Loaded { generation: 1, .. });
        if is_expected && !self.is_started.load(Ordering::Acquire) {
            return;
        }
        let line = describe(notice);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        self.arrived.notify_one();
    }

    /// Notes that the conversation began, so that plugins that are loaded now are announced.
    pub fn startup_is_over(&self) {
        self.is_started.store(true, Ordering::Release);
    }

    /// Returns the plugins that are gone or were reloaded since the last call.
    pub fn take_ended(&self) -> Vec<String> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the notices since the last call.
    pub fn take_lines(&self) -> Vec<Text> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_that_is_gone_or_reloaded_ends_what_is_shown_of_it() {
        let notices = PluginNotices::default();
        let loaded = |generation| NoticeEvent::Loaded { generation, version: "1.0.0".to_owned() };
        let events = [("new", loaded(1)), ("reloaded", loaded(2)), ("gone", NoticeEvent::Removed)];
        for (plugin, event) in events.into_iter().chain([("slow", NoticeEvent::Compiling)]) {
            notices.push_notice(&Notice { plugin: plugin.to_owned(), source: "a.wasm".to_owned(), event });
        }
        assert_eq!(notices.take_ended(), ["reloaded", "gone"]);
        assert!(notices.take_ended().is_empty());
    }
}
