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

/// A queue of messages, filled from any thread.
#[derive(Debug, Default)]
pub struct MessageQueue {
    messages: Mutex<VecDeque<Message>>,
    news: Notify,
    mode: QueueMode,
}

impl MessageQueue {
    /// Creates an empty queue.
    pub fn new(mode: QueueMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Adds a message at the end.
    pub fn push(&self, message: Message) {
        self.lock().push_back(message);
        self.news.notify_waiters();
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Removes and returns all messages, whatever the mode.
    pub fn clear(&self) -> Vec<Message> {
        self.lock().drain(..).collect()
    }

    /// Returns copies of the messages.
    pub(crate) fn waiting(&self) -> Vec<Message> {
        self.lock().iter().cloned().collect()
    }

    /// Removes and returns the messages that the mode takes at once.
    pub(crate) fn take(&self) -> Vec<Message> {
        let mut messages = self.lock();
        match self.mode {
            QueueMode::OneAtATime => messages.pop_front().into_iter().collect(),
            QueueMode::All => messages.drain(..).collect(),
        }
    }

    /// Waits until the queue has a message.
    pub(crate) async fn filled(&self) {
        loop {
            let news = self.news.notified();
            if !self.is_empty() {
                return;
            }
            news.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Message>> {
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
        assert_eq!((queue.take().len(), queue.len()), (1, 1));
    }

    #[test]
    fn all_leaves_nothing() {
        let queue = filled(QueueMode::All);
        assert_eq!((queue.take().len(), queue.len()), (2, 0));
    }

    #[tokio::test]
    async fn waiter_wakes_on_a_message_from_another_thread() {
        let queue = std::sync::Arc::new(MessageQueue::default());
        let from = queue.clone();
        let (_, ()) = tokio::join!(tokio::task::spawn_blocking(move || from.push(Message::user("hi"))), queue.filled());
        assert_eq!(queue.len(), 1);
    }
}
