//! What becomes of the exchanges with providers: they are made, written down with `--record`, or played back with
//! `--replay`, where nobody is asked.

use crate::args::RunArgs;
use crate::failure::{Failure, Result};
use jiff::civil::Date;
use pinion_providers::{Playback, Recorder, Script};
use std::path::Path;
use std::sync::Arc;

/// What becomes of the exchanges of a run.
#[derive(Debug, Clone, Default)]
pub(crate) enum Exchanges {
    /// They are made, and that is all.
    #[default]
    Live,
    /// They are made and written down.
    Recorded(Arc<Recorder>),
    /// They come from a recording.
    Played(Arc<Playback>),
    /// There are none: the model is a script.
    Scripted(Script),
}

impl Exchanges {
    /// What the options mean. `--replay` takes a recording as well as a script.
    ///
    /// # Errors
    /// A file cannot be read or made, or makes no sense.
    pub(crate) fn of(args: &RunArgs) -> Result<Self> {
        match (&args.record, &args.replay) {
            (Some(file), _) => record(file),
            (None, Some(file)) => replay(file),
            (None, None) => Ok(Self::Live),
        }
    }

    /// The day that the model is told: today, or the day of the run that is played back.
    pub(crate) fn date(&self) -> Date {
        match self {
            Self::Played(playback) => playback.date(),
            Self::Live | Self::Recorded(_) | Self::Scripted(_) => today(),
        }
    }

    /// Is the model a script?
    pub(crate) fn is_scripted(&self) -> bool {
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

    /// To be called when the run is over.
    ///
    /// # Errors
    /// Not everything was written down.
    pub(crate) fn finish(&self) -> Result<()> {
        match self {
            Self::Recorded(recorder) => {
                recorder.finish().map_err(|error| Failure::failed("not everything was recorded").because(error))
            }
            Self::Live | Self::Played(_) | Self::Scripted(_) => Ok(()),
        }
    }

    /// What the user should know of a recording that was played back.
    pub(crate) fn notice(&self) -> Option<String> {
        let left = self.playback()?.remaining();
        (left > 0).then(|| format!("{left} more exchanges of the recording were not asked for"))
    }
}

fn record(file: &Path) -> Result<Exchanges> {
    let recorder = Recorder::create(file, today());
    let recorder =
        recorder.map_err(|error| Failure::usage(format!("could not make `{}`", file.display())).because(error))?;
    Ok(Exchanges::Recorded(Arc::new(recorder)))
}

fn replay(file: &Path) -> Result<Exchanges> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("could not read `{}`", file.display())).because(error))?;
    if !Playback::is_recording(&text) {
        let script = Script::load(file).map_err(Failure::from)?;
        return Ok(Exchanges::Scripted(script));
    }
    let playback =
        Playback::parse(&text).map_err(|error| Failure::usage(format!("`{}`", file.display())).because(error))?;
    Ok(Exchanges::Played(Arc::new(playback)))
}

fn today() -> Date {
    jiff::Zoned::now().date()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn of(folder: &TempDir, text: &str) -> Result<Exchanges> {
        let file = folder.path().join("file.jsonl");
        std::fs::write(&file, text).unwrap();
        let args = RunArgs::of(&["--replay", file.to_str().unwrap()]);
        Exchanges::of(&args)
    }

    #[test]
    fn a_recording_and_a_script_are_told_apart() {
        let folder = TempDir::new().unwrap();
        assert!(
            matches!(of(&folder, "{\"text\":\"hi\"}\n"), Ok(Exchanges::Scripted(script)) if script.replies.len() == 1)
        );
        let played = of(&folder, "{\"pinion_recording\":1,\"date\":\"2026-01-02\"}\n").unwrap();
        assert_eq!(played.date().to_string(), "2026-01-02");
        assert!(played.playback().is_some() && played.recorder().is_none() && played.notice().is_none());
        let newer = of(&folder, "{\"pinion_recording\":2}\n").unwrap_err();
        assert!(newer.to_string().contains("not a recording of this version"), "{newer}");
        assert!(of(&folder, "nonsense\n").unwrap_err().to_string().contains("line 1"));
    }

    #[test]
    fn a_recording_is_begun_at_once_and_ends_in_good_order() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("run.jsonl");
        let args = RunArgs::of(&["--record", file.to_str().unwrap()]);
        let exchanges = Exchanges::of(&args).unwrap();
        assert!(exchanges.recorder().is_some() && exchanges.finish().is_ok());
        assert!(Playback::is_recording(&std::fs::read_to_string(file).unwrap()));
        let args = RunArgs::of(&["--record", "/no/such/folder/run.jsonl"]);
        assert!(Exchanges::of(&args).unwrap_err().to_string().contains("/no/such/folder"));
    }
}
