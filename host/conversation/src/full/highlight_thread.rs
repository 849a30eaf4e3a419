//! The thread that highlights code.

use crate::full::ui_inbox::UiInbox;
use pinion_tui::{HighlightJob, Highlighter, Input};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Highlights code on a thread that starts with the first job. It ends with the program: a hostile text may keep it busy.
pub(super) struct Light {
    said: Arc<UiInbox>,
    jobs: Option<SyncSender<HighlightJob>>,
}

impl Light {
    pub(super) fn new(said: Arc<UiInbox>) -> Self {
        Self { said, jobs: None }
    }

    /// Runs a job, whose result becomes an input. Without a thread, the code stays plain.
    pub(super) fn run(&mut self, job: HighlightJob) {
        if self.jobs.is_none() {
            let (jobs, received) = sync_channel::<HighlightJob>(1);
            let said = self.said.clone();
            let work = move || {
                let mut highlighter = Highlighter::default();
                for job in received {
                    said.push_input(Input::Highlighted(highlighter.run(job)));
                }
            };
            let started = std::thread::Builder::new().name("pinion-highlight".to_owned()).spawn(work);
            self.jobs = started.ok().map(|_| jobs);
        }
        // There is one job at a time, so the channel has room.
        let _ = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
    }
}
