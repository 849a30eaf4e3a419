//! Inputs for the open views.

use crate::dialog::screen_view::{AnyView, ReadingKeys, ScreenView, ViewLayer, ViewOutcome};
use crate::update::App;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

impl App {
    /// Shows a question of the host.
    pub(crate) fn show_question(&mut self, view: impl ScreenView<App>) {
        self.popup = None;
        let announcement = view.announcement();
        self.views.open(view);
        announcement.into_iter().for_each(|text| self.notify(text));
    }

    /// Gives an input to the views, from the top, until one takes it. Returns whether one did.
    pub(crate) fn give_views(
        &mut self,
        now: Duration,
        mut input: impl FnMut(&mut AnyView<App>) -> ViewOutcome<App>,
    ) -> bool {
        let outcome =
            self.views.iter_mut_from_top().map(&mut input).find(|outcome| !matches!(outcome, ViewOutcome::Passed));
        match outcome {
            Some(ViewOutcome::Effect(effect)) => effect(self, now),
            Some(ViewOutcome::Taken) => {}
            Some(ViewOutcome::Passed) | None => return false,
        }
        true
    }

    /// Tells all views that time has passed.
    pub(crate) fn tick_views(&mut self, now: Duration) {
        let outcomes: Vec<ViewOutcome<App>> = self.views.iter_mut_from_top().map(|view| view.take_tick(now)).collect();
        for outcome in outcomes {
            if let ViewOutcome::Effect(effect) = outcome {
                effect(self, now);
            }
        }
    }

    /// Moves in a page or a list by the wheel. Returns whether one is open for that.
    pub(crate) fn wheel_in_view(&mut self, is_down: bool, now: Duration) -> bool {
        let (views, is_reading) = (&self.views, self.views.reading_keys() != ReadingKeys::Nothing);
        let layer = match (views.has(ViewLayer::List), views.has(ViewLayer::Page)) {
            (true, _) if !is_reading => ViewLayer::List,
            (false, true) if !views.has(ViewLayer::Question) => ViewLayer::Page,
            _ => return false,
        };
        let key = KeyEvent::new(if is_down { KeyCode::Down } else { KeyCode::Up }, KeyModifiers::NONE);
        self.give_views(now, |view| match view.layer() == layer {
            true => view.take_key(key, None, now),
            false => ViewOutcome::Passed,
        })
    }
}
