//! Writes down what happens in the loops of a session, as those who watch them are told.
//!
//! The loop keeps its messages itself, before it tells anyone of them; this is for the rest: when loops begin and end,
//! retries, compactions, refusals, sub-agents. A thread writes, so that whoever tells does not wait for a disk. What is
//! not written yet is bounded: when a disk hangs that long, what comes meanwhile is counted and lost.
//!
//! Loops of other sessions (sub-agents, whose events are passed on) are none of its business.

use crate::record::{Compacted, LoopEnd, LoopStart, Record, Rejected, Retry, Spawned};
use crate::session::Session;
use pinion_agent::{Event, EventKind, EventReceiver, Message, StoreError};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Records that wait for the disk.
const WAITING: usize = 1_024;
/// Loops that run at the same time.
const LOOPS: usize = 64;

/// Takes the events of loops, and keeps what their session must hold besides messages. Dropping it waits until what was
/// taken is written.
#[derive(Debug)]
pub struct Recorder {
    session_id: String,
    /// Loops of this session that began and did not end, the oldest first.
    open: VecDeque<Arc<str>>,
    /// None once it is being finished.
    queue: Option<SyncSender<Record>>,
    writer: Option<JoinHandle<Written>>,
    lost: u64,
}

/// What became of the records.
#[derive(Debug, Default)]
pub struct Written {
    /// How many are in the session.
    pub written: u64,
    /// How many are not: the disk was too slow, or refused.
    pub lost: u64,
    /// Why the first one was refused.
    pub error: Option<StoreError>,
}

impl Recorder {
    /// Begins to write to a session.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(session: Arc<Session>) -> io::Result<Self> {
        let (queue, waiting) = sync_channel(WAITING);
        let session_id = session.id().to_owned();
        let writer = Builder::new().name("pinion-recorder".to_owned()).spawn(move || write(&session, &waiting))?;
        Ok(Self { session_id, open: VecDeque::new(), queue: Some(queue), writer: Some(writer), lost: 0 })
    }

    /// Takes an event. Never waits and never fails.
    pub fn observe(&mut self, event: &Event) {
        if let Some(record) = self.record_of(event) {
            self.record(record);
        }
    }

    /// Takes a record of which there is no event. Never waits and never fails.
    pub fn record(&mut self, record: Record) {
        let is_taken = self.queue.as_ref().is_some_and(|queue| queue.try_send(record).is_ok());
        self.lost += u64::from(!is_taken);
    }

    /// Takes events until there are no more, then waits until all is written, and says what became of it.
    pub async fn watch(mut self, mut events: EventReceiver) -> Written {
        while let Some(event) = events.recv().await {
            self.observe(&event);
        }
        self.finish()
    }

    /// Waits until what was taken is written, and says what became of it.
    pub fn finish(mut self) -> Written {
        let mut written = self.join();
        written.lost += self.lost;
        written
    }

    fn join(&mut self) -> Written {
        self.queue = None;
        self.writer.take().and_then(|writer| writer.join().ok()).unwrap_or_default()
    }

    fn record_of(&mut self, event: &Event) -> Option<Record> {
        if let EventKind::AgentStart { session_id, .. } = &event.kind {
            return (**session_id == *self.session_id).then(|| self.begin(event));
        }
        let at = self.open.iter().position(|open| *open == event.loop_id)?;
        if matches!(event.kind, EventKind::AgentEnd { .. }) {
            self.open.remove(at);
        }
        record_of(&event.loop_id, &event.kind)
    }

    fn begin(&mut self, event: &Event) -> Record {
        if self.open.len() >= LOOPS {
            self.open.pop_front();
        }
        self.open.push_back(event.loop_id.clone());
        let mut start = LoopStart { loop_id: event.loop_id.to_string(), ..LoopStart::default() };
        if let EventKind::AgentStart { agent_id, parent_loop_id, continuation, trigger, provider, model, .. } =
            &event.kind
        {
            start.agent_id = Some(agent_id.to_string());
            start.parent_loop_id = parent_loop_id.as_deref().map(str::to_owned);
            start.continuation = continuation.clone();
            start.trigger = *trigger;
            (start.provider, start.model) = (Some(provider.clone()), Some(model.clone()));
        }
        Record::LoopStart(start)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.join();
    }
}

/// What is kept of an event of a loop of this session.
fn record_of(loop_id: &str, kind: &EventKind) -> Option<Record> {
    let loop_id = loop_id.to_owned();
    Some(match kind {
        EventKind::AgentEnd { end, messages, usage, cost, turns, .. } => Record::LoopEnd(LoopEnd {
            loop_id,
            end: end.clone(),
            usage: *usage,
            cost: *cost,
            turns: *turns,
            messages: messages.len() as u64,
        }),
        EventKind::Retry { attempt, max_attempts, delay_ms, cause, .. } => Record::Retry(Retry {
            loop_id,
            attempt: *attempt,
            max_attempts: *max_attempts,
            delay_ms: *delay_ms,
            cause: cut(cause),
        }),
        EventKind::Compaction { dropped, .. } => Record::Compacted(Compacted { loop_id, dropped: *dropped as u64 }),
        EventKind::InputRejected { reason, .. } => Record::Rejected(Rejected { loop_id, reason: cut(reason) }),
        EventKind::MessageEnd { message, .. } => spawned(loop_id, message)?,
        _ => return None,
    })
}

fn spawned(loop_id: String, message: &Message) -> Option<Record> {
    let Message::ToolResult(result) = message else { return None };
    let child_loop_id = result.child_loop_id.clone()?;
    let (call_id, tool) = (result.call_id.clone(), result.tool_name.clone());
    Some(Record::Spawned(Spawned { loop_id, child_loop_id, call_id, tool }))
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(Record::MAX_TEXT)].to_owned()
}

fn write(session: &Session, waiting: &Receiver<Record>) -> Written {
    let mut written = Written::default();
    for record in waiting {
        match session.record(&record) {
            Ok(_) => written.written += 1,
            Err(error) => {
                written.lost += 1;
                written.error.get_or_insert(error);
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{result, time, user, workspace};
    use crate::transcript::Transcript;
    use pinion_agent::{
        CompactionReason, RunEnd, SessionStore as _, StopReason, ToolResultMessage, TurnTrigger, Usage, event_channel,
    };
    use tempfile::TempDir;

    fn event(loop_id: &str, kind: EventKind) -> Event {
        Event { loop_id: loop_id.into(), kind }
    }

    fn start(session: &str) -> EventKind {
        EventKind::AgentStart {
            agent_id: "agent".into(),
            session_id: session.into(),
            parent_loop_id: None,
            continuation: None,
            trigger: TurnTrigger::User,
            provider: "p".into(),
            model: "m".into(),
        }
    }

    fn end() -> EventKind {
        EventKind::AgentEnd {
            end: RunEnd::Done { stop_reason: StopReason::Stop },
            messages: vec![user("x")],
            usage: Usage { input: 3, ..Usage::default() },
            cost: None,
            turns: 2,
        }
    }

    fn retry(cause: &str) -> EventKind {
        EventKind::Retry { attempt: 1, max_attempts: 3, delay_ms: 1_000, cause: cause.into() }
    }

    fn session(folder: &TempDir) -> Arc<Session> {
        let session = Session::begin(&folder.path().join("a.jsonl"), workspace());
        session.append(&user("go")).unwrap();
        Arc::new(session)
    }

    #[test]
    fn what_happens_in_a_loop_is_in_its_session() {
        let folder = TempDir::new().unwrap();
        let session = session(&folder);
        let id = session.id().to_owned();
        let Message::ToolResult(plain) = &*result("1") else { panic!() };
        let delegated = ToolResultMessage { child_loop_id: Some("k.c.1".into()), ..plain.clone() };
        let delegated = Arc::new(Message::ToolResult(ToolResultMessage { timestamp: time(), ..delegated }));
        let mut recorder = Recorder::start(session.clone()).unwrap();
        for kind in [
            start(&id),
            EventKind::TurnStart { turn: 1, trigger: TurnTrigger::User },
            retry(&"ä".repeat(Record::MAX_TEXT)),
            EventKind::Compaction {
                reason: CompactionReason::Asked,
                dropped: 4,
                summary: "…".into(),
                before: 2,
                after: 1,
            },
            EventKind::MessageEnd { message: delegated },
            end(),
        ] {
            recorder.observe(&event("s.c.1", kind));
        }
        let written = recorder.finish();
        assert_eq!((written.written, written.lost), (5, 0));
        let loops = Transcript::open(session.path()).unwrap().loops().unwrap();
        let found = loops.get("s.c.1").unwrap();
        assert_eq!((found.retries, found.spawned[0].child_loop_id.as_str()), (1, "k.c.1"));
        let (_, ended) = found.end.as_ref().unwrap();
        assert_eq!((ended.turns, ended.messages, ended.usage.input), (2, 1, 3));
    }

    #[test]
    fn loops_of_other_sessions_are_left_to_them() {
        let folder = TempDir::new().unwrap();
        let session = session(&folder);
        let mut recorder = Recorder::start(session).unwrap();
        for kind in [start("another"), retry("busy"), end()] {
            recorder.observe(&event("another.c.1", kind));
        }
        assert_eq!(recorder.finish().written, 0);
    }

    #[test]
    fn a_session_that_cannot_be_written_costs_only_the_records() {
        let folder = TempDir::new().unwrap();
        let session = Arc::new(Session::begin(&folder.path().join("a.jsonl/b.jsonl"), workspace()));
        std::fs::write(folder.path().join("a.jsonl"), "a file where a folder should be").unwrap();
        let mut recorder = Recorder::start(session.clone()).unwrap();
        recorder.observe(&event("s.c.1", start(session.id())));
        let written = recorder.finish();
        assert_eq!((written.written, written.lost, written.error.is_some()), (0, 1, true));
    }

    #[test]
    fn whoever_tells_never_waits_for_the_disk() {
        let folder = TempDir::new().unwrap();
        let session = session(&folder);
        let mut recorder = Recorder::start(session.clone()).unwrap();
        let held = session.hold();
        recorder.observe(&event("s.c.1", start(session.id())));
        for _ in 0..WAITING * 2 {
            recorder.observe(&event("s.c.1", retry("busy")));
        }
        drop(held);
        let written = recorder.finish();
        assert!(written.lost >= WAITING as u64 - 1, "{written:?}");
        assert_eq!(written.written + written.lost, WAITING as u64 * 2 + 1);
    }

    #[test]
    fn events_are_taken_until_there_are_no_more() {
        let folder = TempDir::new().unwrap();
        let session = session(&folder);
        let (sender, receiver) = event_channel(8);
        sender.offer(event("s.c.1", start(session.id())));
        sender.offer(event("s.c.1", end()));
        drop(sender);
        let watching = Box::pin(Recorder::start(session).unwrap().watch(receiver));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(written) = std::pin::pin!(watching).poll(&mut context) else { panic!() };
        assert_eq!(written.written, 2);
    }
}
