//! The list of settings: each with its state and a description. A choice changes the conversation at once, and the list
//! stays; the key in `[tui]` that makes it permanent is named.

use crate::dialog::picker::{Pick, PickChoice, Picker};
use crate::input::UiRequest;
use crate::update::{App, LONG_WORK};
use std::time::Duration;

/// A setting of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListedSetting {
    Thinking,
    Unfolded,
    Ledgers,
    Sides,
    Mouse,
    Vi,
    ReducedMotion,
    Notify,
    Theme,
    Model,
    ThinkingLevel,
    Keys,
}

/// Settings with their names and descriptions. A name in backticks is the key of the config.
const SETTINGS: &[(ListedSetting, &str, &str)] = &[
    (ListedSetting::Thinking, "show reasoning", "the model's reasoning is shown completely (`thinking`)"),
    (ListedSetting::Unfolded, "unfold results", "results and sub-agents are shown completely (`unfolded`)"),
    (ListedSetting::Ledgers, "show resources", "each call shows its time, memory and fuel"),
    (ListedSetting::Sides, "side-by-side diffs", "unfolded diffs have the old lines on the left"),
    (ListedSetting::Mouse, "mouse", "the wheel scrolls, and dragging copies (`mouse`)"),
    (ListedSetting::Vi, "vi keys", "the editor has the keys of vi (`vi`)"),
    (ListedSetting::ReducedMotion, "reduced motion", "no marks move (`reduced-motion`)"),
    (ListedSetting::Notify, "notifications", "the end of long work and questions notify you (`notify`)"),
    (ListedSetting::Theme, "theme", "choose the colours (`theme`)"),
    (ListedSetting::Model, "model", "choose the model of the conversation (`model`)"),
    (ListedSetting::ThinkingLevel, "thinking level", "use the next level (`thinking`)"),
    (ListedSetting::Keys, "keys", "list the keys and their actions (`[keys]`)"),
];

impl App {
    /// Lists the settings with their states.
    pub(super) fn list_settings(&mut self, now: Duration) {
        let choices = self.setting_choices();
        self.offer(Pick::Settings, choices, now);
    }

    fn setting_choices(&self) -> Vec<PickChoice> {
        let choice = |(setting, name, description): &(ListedSetting, &str, &str)| PickChoice {
            value: (*name).to_owned(),
            label: (*name).to_owned(),
            detail: match self.is_on(*setting) {
                Some(is_on) => format!("{} · {description}", if is_on { "on" } else { "off" }),
                None => (*description).to_owned(),
            },
        };
        SETTINGS.iter().map(choice).collect()
    }

    /// Returns the state of a setting; `None` for one that is not on or off.
    fn is_on(&self, setting: ListedSetting) -> Option<bool> {
        let look = self.transcript.look();
        Some(match setting {
            ListedSetting::Thinking => look.has_thinking,
            ListedSetting::Unfolded => look.is_unfolded,
            ListedSetting::Ledgers => look.has_ledgers,
            ListedSetting::Sides => look.has_sides,
            ListedSetting::Mouse => self.settings.has_mouse,
            ListedSetting::Vi => self.settings.has_vi_keys,
            ListedSetting::ReducedMotion => self.settings.has_reduced_motion,
            ListedSetting::Notify => self.settings.notify_after.is_some(),
            ListedSetting::Theme | ListedSetting::Model | ListedSetting::ThinkingLevel | ListedSetting::Keys => {
                return None;
            }
        })
    }

    /// Changes the chosen setting. The list stays for those that are on or off.
    pub(super) fn setting_picked(&mut self, picker: Picker, name: &str, now: Duration) {
        let Some((setting, ..)) = SETTINGS.iter().find(|(_, known, _)| *known == name) else { return };
        match setting {
            ListedSetting::Thinking => self.transcript.set_look(|look| look.has_thinking = !look.has_thinking),
            ListedSetting::Unfolded => {
                self.transcript.forget_folds();
                self.transcript.set_look(|look| look.is_unfolded = !look.is_unfolded);
            }
            ListedSetting::Ledgers => self.transcript.set_look(|look| look.has_ledgers = !look.has_ledgers),
            ListedSetting::Sides => self.transcript.set_look(|look| look.has_sides = !look.has_sides),
            ListedSetting::Mouse => self.toggle_mouse(now),
            ListedSetting::Vi => {
                self.settings.has_vi_keys = !self.settings.has_vi_keys;
                self.vi.reset();
            }
            ListedSetting::ReducedMotion => self.settings.has_reduced_motion = !self.settings.has_reduced_motion,
            ListedSetting::Notify => {
                self.settings.notify_after = if self.settings.notify_after.is_some() { None } else { Some(LONG_WORK) };
            }
            ListedSetting::Theme => return self.requests.push(UiRequest::List(Pick::Theme)),
            ListedSetting::Model => return self.requests.push(UiRequest::List(Pick::Model)),
            ListedSetting::ThinkingLevel => self.requests.push(UiRequest::NextThinking),
            ListedSetting::Keys => return self.list_keys(now),
        }
        self.views.open(picker);
        self.relist(Pick::Settings, self.setting_choices(), now);
    }
}
