//! The reader of a console.

use super::size;
use crate::theme::{Answers, Background};
use crossterm::event::{Event, poll, read};
use std::io;
use std::time::{Duration, Instant};

/// Time within which an answer of the terminal that has begun arrives.
const ANSWERED: Duration = Duration::from_millis(100);

/// The reader of the terminal.
#[derive(Debug)]
pub struct Inputs {
    /// The size that the UI knows.
    size: (u16, u16),
    answers: Answers,
    background: Option<Background>,
}

impl Inputs {
    /// Creates the reader for a UI that draws on this many columns and rows.
    pub fn new(size: (u16, u16)) -> Self {
        Self { size, answers: Answers::default(), background: None }
    }

    /// Passes keys that arrive together as keys, as a console always does.
    #[must_use]
    pub fn without_bursts(self) -> Self {
        self
    }

    /// Waits until the terminal sends something, or has another size. Returns everything that has arrived.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn read(&mut self) -> io::Result<Vec<Event>> {
        loop {
            let time = if self.answers.is_waiting() { ANSWERED } else { Duration::MAX };
            let events = self.read_within(time)?;
            if !events.is_empty() || self.background.is_some() {
                return Ok(events);
            }
        }
    }

    /// Waits like [`Self::read`], and at most for a time.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn read_within(&mut self, time: Duration) -> io::Result<Vec<Event>> {
        let mut passed = Vec::new();
        let end = Instant::now().checked_add(time);
        let mut wait = time;
        while poll(wait)? {
            self.background = self.answers.take(read()?, &mut passed).or(self.background);
            wait = match passed.is_empty() && self.background.is_none() {
                true => end.map_or(time, |end| end.saturating_duration_since(Instant::now())),
                false => Duration::ZERO,
            };
        }
        if passed.is_empty() && self.background.is_none() {
            self.answers.give_up(&mut passed);
        }
        self.add_size(&mut passed, size()?);
        Ok(passed)
    }

    /// Returns the events that the terminal has sent, without waiting for more.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn arrived(&mut self) -> io::Result<Vec<Event>> {
        self.read_within(Duration::ZERO)
    }

    /// Discards the typed keys that have not been passed.
    pub fn discard(&mut self) {
        // A lost terminal has nothing to discard.
        while matches!(poll(Duration::ZERO), Ok(true)) && read().is_ok() {}
        *self = Self::new(self.size);
    }

    /// Returns the background that the terminal has reported since the last call.
    pub fn background(&mut self) -> Option<Background> {
        self.background.take()
    }

    /// Adds the size that the terminal has after these events, unless the UI learns it from them.
    fn add_size(&mut self, events: &mut Vec<Event>, size: (u16, u16)) {
        for event in &*events {
            if let Event::Resize(columns, rows) = event {
                self.size = (*columns, *rows);
            }
        }
        if self.size != size {
            self.size = size;
            events.push(Event::Resize(size.0, size.1));
        }
    }
}
