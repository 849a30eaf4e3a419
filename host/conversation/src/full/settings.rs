//! The settings of the UI, from the config and the environment.

use crate::full::themes;
use pinion_app::config::file::Notify;
use pinion_app::failure::{Failure, Result};
use pinion_app::names::nearest;
use pinion_app::workspace_base::Base;
use pinion_console::args::GlobalArgs;
use pinion_tui::terminal::{Multiplexer, Notification};
use pinion_tui::{KeyMap, StatusSegment, TerminalIndicators, UiSettings};
use std::time::Duration;

/// Converts the settings.
///
/// # Errors
/// The config has a key, an action or a part of the status line that does not exist.
pub(super) fn settings(base: &Base, global: &GlobalArgs, is_inline: bool) -> Result<UiSettings> {
    let (usual, tui) = (UiSettings::default(), &base.config.tui);
    let mut keys = KeyMap::default();
    for (action, names) in &base.config.keys {
        let set = keys.set(action, names.iter().map(String::as_str));
        set.map_err(|error| Failure::usage(format!("invalid config: `[keys]`: {error}")))?;
    }
    keys.check().map_err(|action| {
        let failure = Failure::usage(format!("invalid config: `[keys]`: no key is left for `{action}`"));
        failure.hint(format!("give it one, such as `{action} = [\"ctrl+x\"]`"))
    })?;
    let status = match &tui.status {
        Some(names) => names.iter().map(|name| segment(name)).collect::<Result<_>>()?,
        None => usual.status,
    };
    let notify_after = tui.notify_after_seconds.map(Duration::from_secs).or(usual.notify_after);
    Ok(UiSettings {
        theme: themes::configured(base)?,
        keys,
        has_ledgers: global.verbose > 0,
        has_grants: usual.has_grants,
        has_thinking: tui.thinking,
        is_unfolded: tui.unfolded,
        notify_after: notify_after.filter(|_| tui.notify != Notify::Off),
        status,
        has_vi_keys: tui.vi,
        is_inline,
        has_mouse: tui.mouse.unwrap_or(true),
        has_reduced_motion: tui.reduced_motion || is_set("PINION_REDUCED_MOTION"),
    })
}

fn segment(name: &str) -> Result<StatusSegment> {
    let known = StatusSegment::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, segment)| *segment).ok_or_else(|| {
        let names = StatusSegment::ALL.iter().map(|(name, _)| *name);
        let failure = Failure::usage(format!("invalid config: `status` of `[tui]`: no part `{name}`"));
        match nearest(name, names.clone()) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure.hint(format!("the parts are {}", names.collect::<Vec<_>>().join(", "))),
        }
    })
}

/// Returns the way to notify the user.
pub(super) fn notification(base: &Base) -> Notification {
    match base.config.tui.notify {
        Notify::Osc9 | Notify::Off => Notification::Osc9,
        Notify::Osc777 => Notification::Osc777,
        Notify::Bell => Notification::Bell,
    }
}

/// Returns whether to write links.
pub(super) fn has_links(base: &Base) -> bool {
    base.config.tui.links.unwrap_or_else(knows_sequences)
}

/// Returns whether to mark messages of the user in the scrollback.
pub(super) fn has_marks(base: &Base) -> bool {
    base.config.tui.marks.unwrap_or_else(knows_sequences)
}

/// Returns the elements to show around the screen. Some terminals show a notification for progress, so only terminals
/// that are known to show progress get it.
pub(super) fn surroundings(base: &Base) -> TerminalIndicators {
    let program = std::env::var("TERM_PROGRAM").unwrap_or_default();
    let shows_progress = || {
        let is_inside = multiplexer() != Multiplexer::None;
        let is_known = matches!(program.as_str(), "ghostty" | "WezTerm") || is_set("WT_SESSION") || is_set("ConEmuPID");
        is_known && !is_inside
    };
    let tui = &base.config.tui;
    TerminalIndicators::new(tui.title.unwrap_or_else(knows_sequences), tui.progress.unwrap_or_else(shows_progress))
}

/// Returns whether the terminal ignores sequences that it does not know. The Linux console prints them.
fn knows_sequences() -> bool {
    std::env::var("TERM").is_ok_and(|term| term != "linux")
}

/// Returns whether the terminal wraps its rows again when its width changes. Most do; xterm, rxvt, st, the Linux console and
/// GNU screen cut them off.
pub(super) fn wraps_again() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    let cuts = term == "linux" || term == "rxvt" || term.starts_with("st-") || is_set("XTERM_VERSION") || is_set("STY");
    // Variables of the terminal around tmux are inherited.
    is_set("TMUX") || !cuts
}

/// Returns the program between this one and the terminal.
pub(super) fn multiplexer() -> Multiplexer {
    match (is_set("TMUX"), is_set("STY")) {
        (true, _) => Multiplexer::Tmux,
        (_, true) => Multiplexer::Screen,
        _ => Multiplexer::None,
    }
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}
