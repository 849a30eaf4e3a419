//! Lines that say that a run waits for its model.

use pinion_agent::event::Role;
use pinion_agent::{Event, EventKind};
use std::time::Duration;

/// Time without a sign of the model before a line says that the run waits for it; the next line comes after twice the
/// time.
const SILENCE: Duration = Duration::from_secs(15);

/// A request of the main run that the model has not answered.
#[derive(Default)]
pub(super) struct WaitingForModel {
    since: Option<tokio::time::Instant>,
    reports: u32,
}

impl WaitingForModel {
    /// Takes an event of the main run. Each one but the start of a reply is a sign of life.
    pub(super) fn observe_event(&mut self, event: Option<&Event>) {
        let Some(event) = event else { return };
        let begins = matches!(event.kind, EventKind::MessageStart { role: Role::Assistant });
        *self = Self { since: begins.then(tokio::time::Instant::now), reports: 0 };
    }

    fn time(&self) -> Duration {
        SILENCE * 2_u32.saturating_pow(self.reports.min(20))
    }

    /// Waits until the next line is due.
    pub(super) async fn due(&self) {
        match self.since {
            Some(since) => tokio::time::sleep_until(since + self.time()).await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn report(&mut self) -> String {
        let seconds = self.time().as_secs();
        self.reports += 1;
        format!("… waiting for the model's reply ({seconds} s)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_model_are_reported_ever_more_rarely() {
        let event = |kind| Event { run_id: "r".into(), kind };
        let begins = event(EventKind::MessageStart { role: Role::Assistant });
        let mut waiting = WaitingForModel::default();
        assert!(waiting.since.is_none());
        waiting.observe_event(Some(&begins));
        waiting.observe_event(None);
        assert!(waiting.since.is_some());
        let reports: Vec<String> = (0..3).map(|_| waiting.report()).collect();
        for (report, seconds) in reports.iter().zip([15, 30, 60]) {
            assert!(report.ends_with(&format!("({seconds} s)")), "{report}");
        }
        waiting.observe_event(Some(&event(EventKind::InputRejected { reason: String::new() })));
        assert!(waiting.since.is_none() && waiting.reports == 0);
        waiting.observe_event(Some(&event(EventKind::MessageStart { role: Role::User })));
        assert!(waiting.since.is_none());
    }
}
