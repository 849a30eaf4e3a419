//! The thread that highlights code.

use crate::run::full::said::Said;
use pinion_tui::{Highlighter, Input, Job};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Highlights code on a thread that starts with the first job. It ends with the program: a hostile text may keep it busy.
pub(super) struct Light {
    said: Arc<Said>,
    jobs: Option<SyncSender<Job>>,
}

impl Light {
    pub(super) fn new(said: Arc<Said>) -> Self {
        Self { said, jobs: None }
    }

    /// Runs a job, whose result becomes an input. Without a thread, the code stays plain.
    pub(super) fn run(&mut self, job: Job) {
        if self.jobs.is_none() {
            let (jobs, received) = sync_channel::<Job>(1);
            let said = self.said.clone();
            let work = move || {
                let mut highlighter = Highlighter::default();
                for job in received {
                    said.put(Input::Highlighted(highlighter.run(job)));
                }
            };
            let started = std::thread::Builder::new().name("pinion-highlight".to_owned()).spawn(work);
            self.jobs = started.ok().map(|_| jobs);
        }
        // There is one job at a time, so the channel has room.
        let _ = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
    }
}
