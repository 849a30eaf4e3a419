//! Pages that the UI itself adds to the conversation.

use crate::shorten::short;
use crate::status::time;
use crate::transcript::{Tone, TranscriptItem};
use crate::update::{App, LONG_WORK};
use pinion_protocol::text::count;
use std::time::Duration;

impl App {
    /// Adds a page. One that is higher than the screen is shown from its beginning, if the end of the conversation was.
    pub(super) fn show_page(&mut self, text: String, now: Duration) {
        self.transcript.push(TranscriptItem::Page(text));
        if !self.settings.is_inline {
            self.transcript.begin_last(self.height, now);
        }
    }

    /// Reports the turns, tokens and time of work that has ended, if it was long.
    pub(super) fn account(&mut self, took: Option<Duration>) {
        let account = self.status.account.take();
        if let (Some(took), Some((turns, tokens))) = (took.filter(|took| *took >= LONG_WORK), account) {
            let turns = count(u64::from(turns), "turn");
            self.transcript.note(Tone::Plain, format!("{turns} · {} tokens · {}", short(tokens), time(took)));
        }
    }
}
