//! Exchanges with providers: live, recorded with `--record`, or replayed with `--replay`.

use crate::failure::{Failure, Result};
use crate::options::RunOptions;
use crate::output::count;
use jiff::civil::Date;
use pinion_providers::{Playback, Recorder, RunSurroundings, Script};
use std::path::Path;
use std::sync::Arc;

/// The source and destination of a run's exchanges.
#[derive(Debug, Clone, Default)]
pub enum Exchanges {
    /// Exchanges go to the provider and are not recorded.
    #[default]
    Live,
    /// Exchanges go to the provider and are recorded.
    Recorded(Arc<Recorder>),
    /// Exchanges are replayed from a recording.
    Played(Arc<Playback>),
    /// No exchanges take place, because a script replaces the model.
    Scripted(Script),
}

impl Exchanges {
    /// Interprets the options of a run in `surroundings`. `--replay` accepts a recording or a script.
    ///
    /// # Errors
    /// A file cannot be read or created, or is invalid.
    pub fn from_args(options: &RunOptions, surroundings: impl FnOnce(Date) -> RunSurroundings) -> Result<Self> {
        match (&options.record, &options.replay) {
            (Some(file), _) => record(file, &surroundings(today())),
            (None, Some(file)) => replay(file, surroundings),
            (None, None) => Ok(Self::Live),
        }
    }

    /// Returns the date for the system prompt, which a recording does not depend on.
    pub fn prompt_date(&self) -> Date {
        today()
    }

    /// Returns the date to which the costs of the run belong: today, or the day of the recording.
    pub fn date(&self) -> Date {
        match self {
            Self::Played(playback) => playback.date(),
            Self::Live | Self::Recorded(_) | Self::Scripted(_) => today(),
        }
    }

    /// Returns whether a script replaces the model.
    pub fn is_scripted(&self) -> bool {
        matches!(self, Self::Scripted(_))
    }

    pub(crate) fn recorder(&self) -> Option<Arc<Recorder>> {
        match self {
            Self::Recorded(recorder) => Some(recorder.clone()),
            Self::Live | Self::Played(_) | Self::Scripted(_) => None,
        }
    }

    pub(crate) fn playback(&self) -> Option<Arc<Playback>> {
        match self {
            Self::Played(playback) => Some(playback.clone()),
            Self::Live | Self::Recorded(_) | Self::Scripted(_) => None,
        }
    }

    /// Completes the recording. Called once the run is over.
    ///
    /// # Errors
    /// Some exchanges could not be recorded.
    pub fn finish(&self) -> Result<()> {
        match self {
            Self::Recorded(recorder) => {
                recorder.finish().map_err(|error| Failure::failed("the recording is incomplete").because(error))
            }
            Self::Live | Self::Played(_) | Self::Scripted(_) => Ok(()),
        }
    }

    /// Returns a notice if parts of a recording were not replayed.
    pub fn notice(&self) -> Option<String> {
        let left = self.playback()?.remaining();
        (left > 0).then(|| format!("not replayed: {} of the recording", count(left as u64, "exchange")))
    }
}

fn record(file: &Path, surroundings: &RunSurroundings) -> Result<Exchanges> {
    let recorder = Recorder::create(file, surroundings);
    let recorder =
        recorder.map_err(|error| Failure::usage(format!("could not create `{}`", file.display())).because(error))?;
    Ok(Exchanges::Recorded(Arc::new(recorder)))
}

fn replay(file: &Path, surroundings: impl FnOnce(Date) -> RunSurroundings) -> Result<Exchanges> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("could not read `{}`", file.display())).because(error))?;
    if !Playback::is_recording(&text) {
        let script = Script::load(file).map_err(Failure::from)?;
        return Ok(Exchanges::Scripted(script));
    }
    let playback =
        Playback::parse(&text).map_err(|error| Failure::usage(format!("`{}`", file.display())).because(error))?;
    Ok(Exchanges::Played(Arc::new(playback.in_surroundings(&surroundings(today())))))
}

fn today() -> Date {
    jiff::Zoned::now().date()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn open_exchanges(directory: &TempDir, text: &str) -> Result<Exchanges> {
        let file = directory.path().join("file.jsonl");
        std::fs::write(&file, text).unwrap();
        let options = RunOptions { replay: Some(file.clone()), ..RunOptions::default() };
        Exchanges::from_args(&options, RunSurroundings::new)
    }

    #[test]
    fn replay_distinguishes_recordings_from_scripts() {
        let directory = TempDir::new().unwrap();
        let scripted = open_exchanges(&directory, "{\"text\":\"hi\"}\n");
        assert!(matches!(scripted, Ok(Exchanges::Scripted(script)) if script.replies.len() == 1));
        let played = open_exchanges(&directory, "{\"pinion_recording\":1,\"date\":\"2026-01-02\"}\n").unwrap();
        assert_eq!(played.date().to_string(), "2026-01-02");
        assert!(played.playback().is_some() && played.recorder().is_none() && played.notice().is_none());
        let newer = open_exchanges(&directory, "{\"pinion_recording\":2}\n").unwrap_err();
        assert!(newer.to_string().contains("not a recording of this version"), "{newer}");
        assert!(open_exchanges(&directory, "nonsense\n").unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn recording_starts_at_once_and_is_complete() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("run.jsonl");
        let options = RunOptions { record: Some(file.clone()), ..RunOptions::default() };
        let exchanges = Exchanges::from_args(&options, RunSurroundings::new).unwrap();
        assert!(exchanges.recorder().is_some() && exchanges.finish().is_ok());
        assert!(Playback::is_recording(&std::fs::read_to_string(file).unwrap()));
        let options = RunOptions { record: Some("/no/such/directory/run.jsonl".into()), ..RunOptions::default() };
        assert!(
            Exchanges::from_args(&options, RunSurroundings::new)
                .unwrap_err()
                .to_string()
                .contains("/no/such/directory")
        );
    }
}
