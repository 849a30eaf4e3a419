//! Lists for the user to pick from, and the effects of a choice.

use crate::dialog::picker::{Pick, PickChoice, Picked, Picker};
use crate::dialog::screen_view::{ReadingKeys, ScreenView, ViewFrame, ViewLayer, ViewOutcome, ViewRows};
use crate::input::UiRequest;
use crate::keys::{Action, KeyMap};
use crate::update::App;
use crate::update::plan::KEEP;
use crossterm::event::KeyEvent;
use std::time::Duration;

/// Beginning of the values of actions among commands.
const ACTION: &str = "action:";
/// The remark about a choice that has to wait.
const BUSY: &str = "wait for the agent, or interrupt it";

impl ScreenView<App> for Picker {
    fn layer(&self) -> ViewLayer {
        ViewLayer::List
    }

    fn draw_rows(&mut self, frame: ViewFrame<'_>) -> ViewRows {
        self.draw(frame.columns, frame.height, frame.theme)
    }

    fn take_key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> ViewOutcome<App> {
        let picked = self.key(key, action, now);
        ViewOutcome::effect(move |app: &mut App, now| app.picked(picked, now))
    }

    fn take_paste(&mut self, text: &str, now: Duration) -> ViewOutcome<App> {
        self.paste(text, now);
        ViewOutcome::Taken
    }

    fn take_tick(&mut self, now: Duration) -> ViewOutcome<App> {
        self.tick(now);
        ViewOutcome::Taken
    }

    fn deadline(&self) -> Option<Duration> {
        self.quiet_at()
    }

    fn is_new(&self) -> bool {
        self.quiet_at().is_some()
    }

    fn reading_keys(&self) -> ReadingKeys {
        match self.pick {
            Pick::Plan => ReadingKeys::WithModifierAndPages,
            _ => ReadingKeys::Nothing,
        }
    }
}

impl App {
    pub(super) fn picker_mut(&mut self) -> Option<&mut Picker> {
        self.views.get_mut()
    }

    /// Opens a list, or shows another scope of the one on the screen. A directory without sessions is not a reason to
    /// list no sessions.
    pub(super) fn offer(&mut self, pick: Pick, choices: Vec<PickChoice>, now: Duration) {
        let other_scope = self.picker_mut().filter(|picker| picker.pick.is_sessions() && pick.is_sessions());
        if let Some(picker) = other_scope {
            picker.pick = pick;
            picker.replace(choices);
        } else if choices.is_empty() && pick == Pick::Session {
            return self.requests.push(UiRequest::List(Pick::AllSessions));
        } else if choices.is_empty() {
            return self.hint("nothing to choose from", now);
        } else {
            self.views.open(Picker::new(pick, choices));
        }
        let facts = &self.status.facts;
        let (current, mark) = match pick {
            Pick::Session | Pick::AllSessions => (&facts.session, "this conversation"),
            _ => (&facts.model, "in use"),
        };
        self.views.get_mut::<Picker>().into_iter().for_each(|picker| picker.mark(current, mark));
    }

    /// Takes the changed entries of a list over, unless it was closed meanwhile.
    pub(super) fn relist(&mut self, pick: Pick, choices: Vec<PickChoice>, now: Duration) {
        let Some(picker) = self.views.get_mut::<Picker>().filter(|picker| picker.pick == pick) else { return };
        if picker.replace(choices) {
            picker.mark(&self.status.facts.session, "this conversation");
        } else {
            self.views.close(ViewLayer::List);
            self.hint("no sessions are left", now);
        }
    }

    /// Says something below the list on the screen, or else the editor.
    pub(super) fn notice(&mut self, text: String, now: Duration) {
        match self.picker_mut() {
            Some(picker) => picker.set_notice(text),
            None => self.hint(text, now),
        }
    }

    pub(super) fn history(&mut self, now: Duration) {
        let choice = |text: &str| PickChoice { value: text.to_owned(), label: text.to_owned(), detail: String::new() };
        let choices = self.composer.past().map(choice).collect();
        self.offer(Pick::History, choices, now);
    }

    /// Lists commands, and the effects of keys.
    pub(super) fn palette(&mut self, now: Duration) {
        let commands = self.commands.iter().map(|command| PickChoice {
            value: command.name.clone(),
            label: format!("/{} {}", command.name, command.hint).trim_end().to_owned(),
            detail: command.description.clone(),
        });
        let actions = self.settings.keys.actions().map(|(name, description, keys)| PickChoice {
            value: format!("{ACTION}{name}"),
            label: description.to_owned(),
            detail: keys.join(", "),
        });
        let choices = commands.chain(actions).collect();
        self.offer(Pick::Palette, choices, now);
    }

    /// Lists keys with their effects; a choice causes the effect.
    pub(super) fn list_keys(&mut self, now: Duration) {
        let choices = self.settings.keys.actions().map(|(name, description, keys)| PickChoice {
            value: format!("{ACTION}{name}"),
            label: if keys.is_empty() { "no key".to_owned() } else { keys.join(", ") },
            detail: format!("{description} ({name})"),
        });
        let choices = choices.collect();
        self.offer(Pick::Keys, choices, now);
    }

    pub(super) fn picked(&mut self, picked: Picked, now: Duration) {
        let choice = match picked {
            Picked::Nothing => return,
            Picked::Closed => {
                match self.views.take_view::<Picker>().map(|picker| picker.pick) {
                    Some(Pick::Plan) => self.decide_on_plan(KEEP, now),
                    _ => drop(self.submit_next(now)),
                }
                return;
            }
            Picked::Choice(choice) => choice,
            Picked::Queued(number, change) => return self.change_queue(number, change, now),
            other => return self.session_picked(other, now),
        };
        let picker = self.views.take_view::<Picker>();
        match picker.as_ref().map(|picker| picker.pick) {
            Some(Pick::Settings) => picker.into_iter().for_each(|list| self.setting_picked(list, &choice.value, now)),
            Some(Pick::Model) => self.submit(format!("/model {}", choice.value), now),
            Some(Pick::Session | Pick::AllSessions) if self.status.is_busy() => self.hint(BUSY, now),
            Some(Pick::Session | Pick::AllSessions) => {
                self.status.begin(now);
                self.requests.push(UiRequest::Resume(choice.value));
            }
            Some(Pick::Theme) => self.requests.push(UiRequest::Theme(choice.value)),
            Some(Pick::Plan) => self.decide_on_plan(&choice.value, now),
            Some(Pick::Palette | Pick::Keys) => match choice.value.strip_prefix(ACTION).map(KeyMap::action_of) {
                Some(action) => action.into_iter().for_each(|action| self.act(action, now)),
                // The written text becomes an argument now, and is not lost.
                None => self.composer.insert_first(&format!("/{} ", choice.value)),
            },
            Some(Pick::History) => self.composer.set(&choice.value),
            Some(Pick::Queue) => choice.value.parse().into_iter().for_each(|number| self.edit_queued(number)),
            Some(Pick::Provider) | None => {}
        }
    }

    fn session_picked(&mut self, picked: Picked, now: Duration) {
        let list = self.views.get::<Picker>().map_or(Pick::Session, |picker| picker.pick);
        match picked {
            Picked::Delete(id) => self.requests.push(UiRequest::DeleteSession { id, list }),
            Picked::Rename(id, name) => self.requests.push(UiRequest::RenameSession { id, name, list }),
            Picked::Copy(id) => self.requests.push(UiRequest::CopyCommand(id)),
            Picked::Scope => {
                let other = if list == Pick::Session { Pick::AllSessions } else { Pick::Session };
                self.requests.push(UiRequest::List(other));
            }
            Picked::Fork(_) if self.status.is_busy() => self.notice(BUSY.to_owned(), now),
            Picked::Fork(id) => {
                self.views.close(ViewLayer::List);
                self.status.begin(now);
                self.requests.push(UiRequest::Fork(id));
            }
            Picked::Nothing | Picked::Closed | Picked::Choice(_) | Picked::Queued(..) => {}
        }
    }

    /// Shows a text about a session in the list.
    pub(super) fn preview(&mut self, id: String, text: String) {
        self.picker_mut().into_iter().for_each(|picker| picker.set_preview(id.clone(), text.clone()));
    }

    /// Requests the preview that the list lacks, once.
    pub(super) fn watch_preview(&mut self) {
        let lacking = self.views.get::<Picker>().and_then(Picker::lacks_preview);
        if lacking != self.previewed.as_deref() {
            self.previewed = lacking.map(str::to_owned);
            self.requests.extend(self.previewed.clone().map(UiRequest::Preview));
        }
    }
}
