//! Queues of messages for a run: to steer it, or to follow when it would stop.

use pinion_protocol::message::Message;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Number of messages taken from a queue at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueMode {
    /// A single message.
    #[default]
    OneAtATime,
    /// All messages.
    All,
}

/// A queue of messages, filled from any thread. In a queue that steers, an urgent message interrupts the calls in progress, and
/// a patient one comes after them.
#[derive(Debug, Default)]
pub struct MessageQueue {
    /// Messages, each with whether it is urgent.
    messages: Mutex<VecDeque<(Message, bool)>>,
    news: Notify,
    mode: QueueMode,
}

impl MessageQueue {
    /// Creates an empty queue.
    pub fn new(mode: QueueMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Adds an urgent message at the end.
    pub fn push(&self, message: Message) {
        self.lock().push_back((message, true));
        self.news.notify_one();
    }

    /// Adds a patient message at the end.
    pub fn push_patient(&self, message: Message) {
        self.lock().push_back((message, false));
        self.news.notify_one();
    }

    /// Makes all messages urgent.
    pub fn urge(&self) {
        self.lock().iter_mut().for_each(|(_, is_urgent)| *is_urgent = true);
        self.news.notify_one();
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Removes and returns all messages, in any mode.
    pub fn clear(&self) -> Vec<Message> {
        self.lock().drain(..).map(|(message, _)| message).collect()
    }

    /// Returns whether a message is urgent.
    pub fn is_urgent(&self) -> bool {
        self.lock().iter().any(|(_, is_urgent)| *is_urgent)
    }

    /// Returns copies of the messages.
    pub fn waiting(&self) -> Vec<Message> {
        self.lock().iter().map(|(message, _)| message.clone()).collect()
    }

    /// Removes and returns the messages that the mode takes at once.
    pub fn take_messages(&self) -> Vec<Message> {
        let mut messages = self.lock();
        let most = if self.mode == QueueMode::All { usize::MAX } else { 1 }.min(messages.len());
        messages.drain(..most).map(|(message, _)| message).collect()
    }

    /// Waits until a message is urgent. One run at a time waits.
    pub async fn urged(&self) {
        while !self.is_urgent() {
            self.news.notified().await;
        }
    }

    /// Waits until there is a message. One run at a time waits.
    pub async fn filled(&self) {
        while self.is_empty() {
            self.news.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Message, bool)>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(mode: QueueMode) -> MessageQueue {
        let queue = MessageQueue::new(mode);
        ["one", "two"].into_iter().for_each(|text| queue.push(Message::user(text)));
        queue
    }

    #[test]
    fn one_at_a_time_leaves_the_rest() {
        let queue = filled(QueueMode::OneAtATime);
        assert_eq!((queue.take_messages().len(), queue.len()), (1, 1));
    }

    #[test]
    fn all_leaves_nothing() {
        let queue = filled(QueueMode::All);
        assert_eq!((queue.take_messages().len(), queue.len()), (2, 0));
    }

    #[tokio::test]
    async fn waiter_wakes_on_a_message_from_another_thread() {
        let queue = std::sync::Arc::new(MessageQueue::default());
        let from = queue.clone();
        let (_, ()) = tokio::join!(tokio::task::spawn_blocking(move || from.push(Message::user("hi"))), queue.urged());
        assert_eq!(queue.len(), 1);
    }
}
