//! Sending, and the messages and commands that wait.
//!
//! A message for the work in progress goes to the agent, which reads it after the calls in progress. It stays here until
//! then, because the process may end before. Messages for later and commands wait here for the end of the work.

use crate::commands::{command_of, is_message};
use crate::dialog::picker::{OfQueue, Pick, PickChoice, Picker};
use crate::dialog::screen_view::ViewLayer;
use crate::input::UiRequest;
use crate::keys::Action;
use crate::transcript::Tone;
use crate::update::App;
use pinion_protocol::{Content, EventKind, Message, UserMessage};
use std::collections::VecDeque;
use std::time::Duration;

/// Characters of a text in the list.
const LABEL: usize = 300;
/// The hint for a command to send at once.
const WAITS: &str = "commands wait for the end of the work";

/// Messages and commands that wait, each with a number that it keeps.
#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    waiting: VecDeque<(u64, String)>,
    next: u64,
    /// Messages for the work in progress, in order, until the agent has read or returned them.
    sent: Vec<String>,
    /// The user does not want them to wait for the work in progress.
    is_urgent: bool,
    /// The user wants them back in the editor.
    is_recalled: bool,
    /// The run in progress has read its prompt.
    is_answering: bool,
    /// Counts changes.
    version: u64,
}

impl InputQueue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether a message or a command waits, or was not read yet.
    pub(super) fn has_any(&self) -> bool {
        !self.waiting.is_empty() || !self.sent.is_empty()
    }

    /// Returns a number that changes with the content.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the waiting texts, in order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.waiting.iter().map(|(_, text)| text.as_str())
    }

    /// Returns the messages for the work in progress that the agent has not read yet, in order.
    pub(crate) fn sent(&self) -> &[String] {
        &self.sent
    }

    /// Returns whether those messages do not wait for the work in progress.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Returns whether a command waits, which no message overtakes.
    fn has_command(&self) -> bool {
        self.texts().any(|text| !is_message(text))
    }

    fn push(&mut self, text: String) {
        self.waiting.push_back((self.next, text));
        self.next += 1;
        self.version += 1;
    }

    fn push_first(&mut self, text: String) {
        self.waiting.push_front((self.next, text));
        self.next += 1;
        self.version += 1;
    }

    fn pop(&mut self) -> Option<String> {
        self.version += 1;
        self.waiting.pop_front().map(|(_, text)| text)
    }

    /// Removes the text with a number; `None` if it was sent meanwhile.
    fn remove_text(&mut self, number: u64) -> Option<String> {
        let at = self.waiting.iter().position(|(other, _)| *other == number)?;
        self.version += 1;
        self.waiting.remove(at).map(|(_, text)| text)
    }

    fn send(&mut self, text: String) -> UiRequest {
        self.version += 1;
        self.sent.push(text.clone());
        UiRequest::Steer(text)
    }

    /// Removes the message with a number, for the work in progress.
    fn steer(&mut self, number: u64) -> Option<UiRequest> {
        self.remove_text(number).map(|text| self.send(text))
    }

    /// Follows the run in progress, which reads the messages sent to it.
    pub(super) fn event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::AgentStart { .. } => self.is_answering = false,
            EventKind::MessageUpdate { .. } => self.is_answering = true,
            EventKind::MessageEnd { message } => match &**message {
                Message::User(message) if message.label.is_none() => self.read(message),
                Message::Assistant(_) => self.is_answering = true,
                _ => {}
            },
            _ => {}
        }
    }

    /// Forgets the message that the run has read: the one with this text or, because secrets are removed from texts, the first
    /// one. Before the model answers, another text is the prompt of the run.
    fn read(&mut self, message: &UserMessage) {
        // Further texts come from plugins.
        let text = message.content.iter().find_map(Content::as_text);
        let found = self.sent.iter().position(|sent| Some(sent.as_str()) == text);
        if let Some(at) = found.or_else(|| (self.is_answering && !self.sent.is_empty()).then_some(0)) {
            self.sent.remove(at);
            self.is_urgent &= !self.sent.is_empty();
            self.version += 1;
        }
    }

    /// Removes and returns the messages for the work in progress that were not read: those with one of these texts, or all.
    fn unsend(&mut self, texts: Option<&[String]>) -> Vec<String> {
        let is_meant = |text: &String| texts.is_none_or(|texts| texts.contains(text));
        let (removed, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sent).into_iter().partition(is_meant);
        self.sent = kept;
        self.is_urgent &= !self.sent.is_empty();
        self.version += u64::from(!removed.is_empty());
        removed
    }

    /// Lets the text with a number change places with its neighbour.
    fn shift(&mut self, number: u64, is_down: bool) {
        let at = self.waiting.iter().position(|(other, _)| *other == number);
        let other = at.and_then(|at| if is_down { at.checked_add(1) } else { at.checked_sub(1) });
        if let Some((at, other)) = at.zip(other).filter(|(_, other)| *other < self.waiting.len()) {
            self.version += 1;
            self.waiting.swap(at, other);
        }
    }
}

impl App {
    /// Submits a message or a command. While something works, a message goes to the agent, which reads it after the
    /// calls in progress; a command waits for the end of the work, and so do later texts, and a message that asks for a
    /// plan.
    pub(super) fn submit(&mut self, text: String, now: Duration) {
        if self.status.is_busy() {
            return match is_message(&text) && !self.queue.has_command() && !self.planning.is_on {
                true => self.requests.push(self.queue.send(text)),
                false => self.queue.push(text),
            };
        }
        self.transcript.follow();
        self.status.begin(now);
        if let Some((command, _)) = command_of(&text) {
            self.status.command(command);
        }
        let request = self.request_for(text);
        self.requests.push(request);
    }

    /// Submits a message, or queues it until the work in progress has ended.
    pub(super) fn submit_later(&mut self, text: String, now: Duration) {
        match self.status.is_busy() {
            true => self.queue.push(text),
            false => self.submit(text, now),
        }
    }

    /// Submits the message that waits longest, unless a plan waits for a decision. Returns whether there is one.
    pub(super) fn submit_next(&mut self, now: Duration) -> bool {
        let next = if self.is_deciding() || self.status.is_busy() { None } else { self.queue.pop() };
        let is_one = next.map(|next| self.submit(next, now)).is_some();
        self.relist_queue();
        is_one
    }

    /// Unfolds the selected block, or lets the agent read the first queued message after the calls in progress. Interrupts nothing,
    /// however often it is pressed.
    pub(super) fn send_nothing(&mut self, now: Duration) {
        if self.transcript.selected().is_some() {
            return self.transcript.toggle();
        }
        match self.queue.waiting.front() {
            Some((number, text)) if is_message(text) => {
                let number = *number;
                self.requests.extend(self.queue.steer(number));
            }
            Some(_) => self.hint(WAITS, now),
            None if self.can_urge() => {
                self.hint(self.settings.keys.says(Action::Interrupt, "", &self.interrupts()), now);
            }
            None => {}
        }
    }

    /// Lets the key for the earlier message bring a message into the editor. There, a command that is typed next would become a
    /// part of it.
    pub(super) fn offer_message(&mut self, text: &str, now: Duration) {
        self.composer.offer(text);
        self.hint(self.settings.keys.says(Action::Up, "", "brings the message back"), now);
    }

    /// Returns whether messages wait for the work in progress, which the user can interrupt for them.
    fn can_urge(&self) -> bool {
        self.status.is_busy() && !self.queue.sent.is_empty() && !self.queue.is_urgent
    }

    /// Describes the effect of the key that interrupts.
    pub(crate) fn interrupts(&self) -> String {
        match self.can_urge() {
            true => format!("interrupts {} and sends", self.status.in_progress()),
            false => "interrupts".to_owned(),
        }
    }

    /// Interrupts the work in progress, so that the agent reads the messages that wait for it. Returns false if no
    /// message does.
    pub(super) fn urge(&mut self) -> bool {
        let can_urge = self.can_urge();
        if can_urge {
            self.queue.is_urgent = true;
            // A reply is not a call, which a message could interrupt: the messages begin another run.
            self.requests.push(if self.status.has_calls() { UiRequest::InterruptCalls } else { UiRequest::Interrupt });
        }
        can_urge
    }

    /// Puts the only queued text back into the editor, or lists several. If no text waits, takes back the messages that
    /// the agent has not read.
    pub(super) fn unqueue(&mut self, now: Duration) {
        match self.queue.waiting.back() {
            Some((number, _)) if self.queue.len() == 1 => self.edit_queued(*number),
            Some(_) => self.list_queue(now),
            None => {
                self.queue.is_recalled = true;
                self.requests.push(UiRequest::Recall);
            }
        }
    }

    /// Lists the waiting texts.
    pub(super) fn list_queue(&mut self, now: Duration) {
        match self.queue.is_empty() {
            true => self.hint("nothing waits", now),
            false => self.views.open(Picker::new(Pick::Queue, self.queued())),
        }
    }

    fn queued(&self) -> Vec<PickChoice> {
        let choice = |(number, text): &(u64, String)| PickChoice {
            value: number.to_string(),
            label: text.chars().take(LABEL).collect(),
            detail: String::new(),
        };
        self.queue.waiting.iter().map(choice).collect()
    }

    /// Takes the changes of the queue over into its list, if that is on the screen.
    fn relist_queue(&mut self) {
        let queued = self.queued();
        let list = self.picker_mut().filter(|picker| picker.pick == Pick::Queue);
        if list.is_some_and(|list| !list.replace(queued)) {
            self.views.close(ViewLayer::List);
        }
    }

    /// Puts a queued text into the editor. The text written there can be brought back if both do not fit.
    pub(super) fn edit_queued(&mut self, number: u64) {
        let Some(text) = self.queue.remove_text(number) else { return };
        match is_message(&text) {
            true => self.put_back(vec![text]),
            false => {
                self.composer.discard();
                self.composer.set(&text);
            }
        }
    }

    /// Changes the queue as its list says.
    pub(super) fn change_queue(&mut self, number: u64, change: OfQueue, now: Duration) {
        match change {
            OfQueue::Remove => self.remove_queued(number, now),
            OfQueue::Steer => self.steer_queued(number),
            OfQueue::Up | OfQueue::Down => self.queue.shift(number, change == OfQueue::Down),
        }
        self.relist_queue();
    }

    /// Removes a queued text, which a yank brings back.
    fn remove_queued(&mut self, number: u64, now: Duration) {
        if let Some(text) = self.queue.remove_text(number) {
            self.composer.keep(&text);
            let removed = self.settings.keys.says(Action::Yank, "removed; ", "in the editor brings it back");
            match self.queue.is_empty() {
                true => self.hint(removed, now),
                false => self.notice(removed, now),
            }
        }
    }

    /// Lets the agent read a queued message after the calls in progress.
    fn steer_queued(&mut self, number: u64) {
        match self.queue.waiting.iter().any(|(other, text)| *other == number && is_message(text)) {
            true => self.requests.extend(self.queue.steer(number)),
            false => self.picker_mut().into_iter().for_each(|picker| picker.set_notice(WAITS)),
        }
    }

    /// Interrupts the work. Queued messages return to the editor, so that no message is sent unseen.
    pub(super) fn stop(&mut self) {
        self.requests.push(UiRequest::Interrupt);
        self.queue.is_recalled = true;
        let queued = std::iter::from_fn(|| self.queue.pop()).collect();
        self.put_back(queued);
    }

    /// Takes over messages that the agent has not read.
    pub(super) fn returned(&mut self, messages: Vec<String>) {
        self.queue.unsend(Some(&messages));
        self.take_over(messages);
        // An interruption returns messages at the end of the work, which may be later.
        self.queue.is_recalled &= !self.queue.sent.is_empty();
    }

    /// Takes over messages for the work that has ended, which were neither read nor returned.
    pub(super) fn take_over_sent(&mut self) {
        let sent = self.queue.unsend(None);
        self.take_over(sent);
        self.queue.is_recalled = false;
    }

    /// Puts messages that the agent has not read back into the editor if the user wants that, or has not sent them in this
    /// conversation. Otherwise they are the next message.
    fn take_over(&mut self, messages: Vec<String>) {
        if self.queue.is_recalled || !self.status.is_busy() {
            return self.put_back(messages);
        }
        if !messages.is_empty() {
            self.queue.push_first(messages.join("\n\n"));
        }
    }

    /// Puts messages that were not sent before the one in the editor. Commands would become a part of it, or it a part of
    /// them, so that they are only named.
    pub(super) fn put_back(&mut self, texts: Vec<String>) {
        let (messages, commands): (Vec<_>, Vec<_>) = texts.into_iter().partition(|text| is_message(text));
        for command in commands {
            self.transcript.note(Tone::Warning, format!("not run: {command}"));
        }
        if messages.is_empty() {
            return;
        }
        let written = self.composer.message();
        if !is_message(&written) {
            self.composer.discard();
        }
        let all = messages.into_iter().chain(Some(written).filter(|text| !text.is_empty() && is_message(text)));
        self.composer.set(&all.collect::<Vec<_>>().join("\n\n"));
    }
}
