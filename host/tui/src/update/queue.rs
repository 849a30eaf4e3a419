//! Sending, and the messages and commands that wait for the end of the work in progress.

use crate::dialog::picker::Pick;
use crate::input::Request;
use crate::update::App;
use std::time::Duration;

impl App {
    /// Submits a message or a command, or queues it while another one is worked on.
    pub(super) fn submit(&mut self, text: String, now: Duration) {
        if self.status.is_busy() {
            self.queue.push_back(text);
            return;
        }
        self.transcript.follow();
        self.status.begin(now);
        if let Some(command) = text.strip_prefix('/').and_then(|command| command.split_whitespace().next()) {
            self.status.command(command);
        }
        let request = self.request_for(text);
        self.requests.push(request);
    }

    /// Submits the message that waits longest, unless a plan waits for a decision. Returns whether there is one.
    pub(super) fn submit_next(&mut self, now: Duration) -> bool {
        let is_deciding = self.picker.as_ref().is_some_and(|picker| picker.pick == Pick::Plan);
        let next = if is_deciding || self.status.is_busy() { None } else { self.queue.pop_front() };
        next.map(|next| self.submit(next, now)).is_some()
    }

    /// Unfolds the selected block, or sends the first queued message at once.
    pub(super) fn send_nothing(&mut self) {
        if self.transcript.selected().is_some() {
            return self.transcript.toggle();
        }
        let is_message = self.queue.front().is_some_and(|text| !text.starts_with('/'));
        if let Some(text) = self.queue.pop_front_if(|_| is_message) {
            self.requests.push(Request::Steer(text));
        }
    }

    /// Puts the last queued message back into the editor.
    pub(super) fn unqueue(&mut self) {
        if let Some(text) = self.queue.pop_back() {
            self.composer.set(&text);
        }
    }

    /// Interrupts the work. Queued messages return to the editor, so that none is sent unseen.
    pub(super) fn stop(&mut self) {
        self.requests.push(Request::Interrupt);
        let queued = self.queue.drain(..).collect();
        self.put_back(queued);
    }

    /// Puts messages that were not sent before the one in the editor.
    pub(super) fn put_back(&mut self, messages: Vec<String>) {
        if messages.is_empty() {
            return;
        }
        let written = self.composer.message();
        let all = messages.into_iter().chain(Some(written).filter(|text| !text.is_empty()));
        self.composer.set(&all.collect::<Vec<_>>().join("\n"));
    }
}
