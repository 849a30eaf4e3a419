//! Bounded event channels from runs to watchers, which lose no essential event.
//!
//! When a channel is full, deltas of the same part are merged, and partial results of a call are replaced by later
//! ones; progress and partial results that still find no room are dropped. All other events wait for room: a run is no
//! faster than its slowest watcher. The owner of an [`EventReceiver`] must read it or drop it.
//!
//! An aborted run waits for no watcher: its remaining events are queued beyond the capacity, without previews. They are
//! few: the ends of calls and messages that had started.

use futures_util::Stream;
use pinion_protocol::event::{Event, EventKind};
use pinion_protocol::live_state::Live;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, Waker};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Creates a channel for `capacity` events, at least one.
pub fn event_channel(capacity: usize) -> (EventSender, EventReceiver) {
    let shared = Arc::new(Channel {
        state: Mutex::new(ChannelState { senders: 1, has_previews: true, ..ChannelState::default() }),
        capacity: capacity.max(1),
        writable: Notify::new(),
    });
    (EventSender { shared: shared.clone() }, EventReceiver { shared })
}

/// The sending end of an event channel.
#[derive(Debug)]
pub struct EventSender {
    shared: Arc<Channel>,
}

/// The receiving end of an event channel.
#[derive(Debug)]
pub struct EventReceiver {
    shared: Arc<Channel>,
}

#[derive(Debug)]
struct Channel {
    state: Mutex<ChannelState>,
    capacity: usize,
    writable: Notify,
}

#[derive(Debug, Default)]
struct ChannelState {
    queue: VecDeque<Event>,
    senders: usize,
    /// True if no more events are taken: the receiver was dropped, or its run ended.
    is_closed: bool,
    /// False if the receiver wants no previews.
    has_previews: bool,
    /// The task that waits for an event.
    reader: Option<Waker>,
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event; returns it if there is no room.
    fn push_event(&self, event: Event) -> Option<Event> {
        let mut state = self.state();
        if state.is_closed || !state.has_previews && event.kind.is_preview() {
            return None;
        }
        if state.queue.len() < self.capacity {
            state.queue.push_back(event);
            wake_reader(state);
            return None;
        }
        match state.queue.back_mut() {
            Some(last) if last.run_id == event.run_id => {
                let run_id = event.run_id;
                last.kind.merge(event.kind).map(|kind| Event { run_id, kind })
            }
            _ => Some(event),
        }
    }

    /// Adds an event beyond the capacity, unless later events contain its data.
    fn force(&self, event: Event) {
        let mut state = self.state();
        if !state.is_closed && !event.kind.is_preview() {
            state.queue.push_back(event);
            wake_reader(state);
        }
    }
}

/// Unlocks the state, and wakes the task that waits for an event.
fn wake_reader(mut state: MutexGuard<'_, ChannelState>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl EventSender {
    /// Sends an event, waiting for room if needed. Returns immediately if the receiver was dropped.
    pub async fn send(&self, event: Event) {
        self.send_until(event, &CancellationToken::new()).await;
    }

    /// Like [`Self::send`], but stops waiting for room when `token` is cancelled, and queues the event all the same.
    async fn send_until(&self, event: Event, token: &CancellationToken) {
        let mut event = event;
        loop {
            let room = self.shared.writable.notified();
            match self.shared.push_event(event) {
                None => return,
                Some(back) => event = back,
            }
            tokio::select! {
                () = room => {}
                () = token.cancelled() => return self.shared.force(event),
            }
        }
    }

    /// Sends an event unless the channel is full.
    pub fn offer(&self, event: Event) {
        // Dropped if the channel is full.
        let _ = self.shared.push_event(event);
    }

    fn is_closed(&self) -> bool {
        self.shared.state().is_closed
    }
}

impl Clone for EventSender {
    fn clone(&self) -> Self {
        self.shared.state().senders += 1;
        Self { shared: self.shared.clone() }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.senders -= 1;
        wake_reader(state);
    }
}

/// Ends the stream of a channel after its events so far, when dropped.
struct StreamEnd(Arc<Channel>);

impl Drop for StreamEnd {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        wake_reader(state);
    }
}

impl EventReceiver {
    /// Leaves out [previews](EventKind::is_preview) from now on, because each would wake the watcher.
    #[must_use]
    pub fn without_previews(self) -> Self {
        self.shared.state().has_previews = false;
        self
    }

    /// Waits for the next event; `None` at the end of the stream.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the next event if there is one already.
    pub fn try_recv(&mut self) -> Option<Event> {
        let event = self.shared.state().queue.pop_front();
        if event.is_some() {
            self.shared.writable.notify_waiters();
        }
        event
    }
}

/// Ends when all events were read, and either all senders are gone, as when the agent was dropped, or the run of the
/// receiver has ended: `Agent::stream`.
impl Stream for EventReceiver {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.shared.state();
        let event = state.queue.pop_front();
        if event.is_none() && state.senders > 0 && !state.is_closed {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        self.shared.writable.notify_waiters();
        Poll::Ready(event)
    }
}

impl Drop for EventReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        state.queue.clear();
        drop(state);
        self.shared.writable.notify_waiters();
    }
}

/// The watchers of runs.
#[derive(Debug, Clone, Default)]
pub struct EventWatchers {
    watchers: Arc<Mutex<Vec<EventSender>>>,
    /// Ends the wait for slow watchers; never cancelled unless [`Self::until`] names another one.
    token: CancellationToken,
    /// The state of the agent whose run these events describe.
    live: Option<Arc<Live>>,
}

impl EventWatchers {
    /// Adds a watcher with a channel for `capacity` events.
    pub fn subscribe(&self, capacity: usize) -> EventReceiver {
        let (sender, receiver) = event_channel(capacity);
        self.watchers().push(sender);
        receiver
    }

    /// Adds a watcher whose stream ends with `run`, or when its future is dropped.
    pub fn subscribe_to<T>(
        &self,
        run: impl Future<Output = T>,
        capacity: usize,
    ) -> (EventReceiver, impl Future<Output = T>) {
        let receiver = self.subscribe(capacity);
        let end = StreamEnd(receiver.shared.clone());
        let run = async move {
            let _end = end;
            run.await
        };
        (receiver, run)
    }

    /// Returns the same watchers, for a run that no longer waits for slow ones once `token` is cancelled.
    #[must_use]
    pub fn until(&self, token: &CancellationToken) -> Self {
        Self { token: token.clone(), ..self.clone() }
    }

    /// Returns the same watchers, for the run that `live` describes.
    #[must_use]
    pub fn described_by(&self, live: &Arc<Live>) -> Self {
        Self { live: Some(live.clone()), ..self.clone() }
    }

    /// Locks the state of the agent, if this is the run that it describes.
    pub fn state(&self, run_id: &Arc<str>) -> Option<MutexGuard<'_, pinion_protocol::live_state::LiveState>> {
        self.live.as_ref()?.lock_run(run_id)
    }

    /// Sends an event to all watchers, and waits for slow ones.
    pub async fn emit(&self, run_id: &Arc<str>, kind: EventKind) {
        if let Some(mut state) = self.state(run_id) {
            state.observe(&kind);
        }
        let watchers = self.current();
        let mut kind = Some(kind);
        for (at, watcher) in watchers.iter().enumerate() {
            let is_last = at + 1 == watchers.len();
            let Some(kind) = (if is_last { kind.take() } else { kind.clone() }) else { return };
            watcher.send_until(Event { run_id: run_id.clone(), kind }, &self.token).await;
        }
    }

    /// Sends an event to all watchers that have room.
    pub fn offer(&self, run_id: &Arc<str>, kind: &EventKind) {
        for watcher in self.current() {
            watcher.offer(Event { run_id: run_id.clone(), kind: kind.clone() });
        }
    }

    /// Returns the watchers whose receiver still exists.
    fn current(&self) -> Vec<EventSender> {
        let mut watchers = self.watchers();
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.clone()
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<EventSender>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::event::ContentDelta;
    use pinion_protocol::identity::TurnTrigger;

    fn text(delta: &str) -> Event {
        let delta = ContentDelta::Text { delta: delta.into() };
        Event { run_id: "l".into(), kind: EventKind::MessageUpdate { index: 0, delta } }
    }

    fn turn(turn: u32) -> Event {
        Event { run_id: "l".into(), kind: EventKind::TurnStart { turn, trigger: TurnTrigger::User } }
    }

    #[tokio::test]
    async fn deltas_are_joined_when_there_is_no_room() {
        let (sender, mut receiver) = event_channel(1);
        for delta in ["a", "b", "c"] {
            sender.send(text(delta)).await;
        }
        assert_eq!(receiver.recv().await, Some(text("abc")));
    }

    #[tokio::test]
    async fn what_cannot_be_joined_waits_for_room_and_is_not_lost() {
        let (sender, mut receiver) = event_channel(1);
        let sending = async {
            for n in 0..100 {
                sender.send(turn(n)).await;
            }
            drop(sender);
        };
        let reading = async {
            let mut seen = Vec::new();
            while let Some(event) = receiver.recv().await {
                seen.push(event);
                tokio::task::yield_now().await;
            }
            seen
        };
        let ((), seen) = tokio::join!(sending, reading);
        assert_eq!(seen, (0..100).map(turn).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_watcher_that_left() {
        let (sender, receiver) = event_channel(1);
        sender.send(turn(1)).await;
        let leaving = async { drop(receiver) };
        tokio::join!(sender.send(turn(2)), leaving);
        sender.send(turn(3)).await;
    }

    #[tokio::test]
    async fn cancellation_ends_the_wait_and_loses_only_previews() {
        let (events, token) = (EventWatchers::default(), CancellationToken::new());
        let mut unread = events.subscribe(1);
        let events = events.until(&token);
        let id: Arc<str> = "l".into();
        events.emit(&id, turn(1).kind).await;
        let waiting = async {
            events.emit(&id, turn(2).kind).await;
            events.emit(&id, text("preview").kind).await;
            events.emit(&id, turn(3).kind).await;
        };
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending(), "there is no room and nobody aborted");
        token.cancel();
        waiting.await;
        let seen: Vec<Event> = std::iter::from_fn(|| unread.try_recv()).collect();
        assert_eq!(seen, [turn(1), turn(2), turn(3)]);
    }

    #[tokio::test]
    async fn a_watcher_without_previews_gets_all_other_events() {
        let events = EventWatchers::default();
        let (mut all, mut some) = (events.subscribe(8), events.subscribe(1).without_previews());
        let id: Arc<str> = "l".into();
        for event in [text("a"), turn(1), text("b")] {
            events.emit(&id, event.kind).await;
        }
        events.offer(&id, &text("c").kind);
        let seen = |events: &mut EventReceiver| std::iter::from_fn(|| events.try_recv()).collect::<Vec<_>>();
        assert_eq!(seen(&mut all), [text("a"), turn(1), text("b"), text("c")]);
        assert_eq!(seen(&mut some), [turn(1)]);
    }

    #[tokio::test]
    async fn an_offer_is_taken_or_lost_but_never_waits() {
        let (sender, mut receiver) = event_channel(1);
        sender.offer(turn(1));
        sender.offer(turn(2));
        drop(sender);
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some(turn(1)), None));
    }

    #[tokio::test]
    async fn every_watcher_sees_everything() {
        let events = EventWatchers::default();
        let (mut one, mut two) = (events.subscribe(8), events.subscribe(8));
        events.emit(&"l".into(), EventKind::TurnStart { turn: 7, trigger: TurnTrigger::User }).await;
        assert_eq!((one.recv().await, two.recv().await), (Some(turn(7)), Some(turn(7))));
    }
}
