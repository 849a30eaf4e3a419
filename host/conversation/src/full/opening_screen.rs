//! The UI while its conversation is put together.
//!
//! Most sessions are read in no time, and the UI opens when they are there. The end of a long session is shown at once.
//! Keys typed meanwhile wait in the terminal.

use crate::full::canvas::{Canvas, unusable};
use crate::full::keyboard::{self, Batch};
use crate::full::lists;
use pinion_agent::Event;
use pinion_app::failure::Result;
use pinion_app::files::paths::shown_directory;
use pinion_app::run::session::continued;
use pinion_app::workspace_base::Base;
use pinion_console::args::RunArgs;
use pinion_session_store::last_history;
use pinion_tui::{App, Facts, Input, Tone, UiSettings};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes at the end of a session that are shown first. A session that is not four times as long opens as quickly.
const END: u64 = 256 << 10;

/// The terminal, and the UI that has no conversation yet.
pub(super) struct OpeningScreen {
    pub(super) app: App,
    pub(super) canvas: Canvas,
    pub(super) batches: mpsc::Receiver<Batch>,
    pub(super) lost: CancellationToken,
    pub(super) started: Instant,
}

impl OpeningScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn new(base: &Base, settings: UiSettings) -> Result<Self> {
        let (deliver, batches) = mpsc::channel(1);
        let keys = settings.keys.clone();
        let mut canvas = Canvas::open(base, settings.is_inline)?;
        if settings.has_mouse {
            canvas.report_mouse(true);
        }
        keyboard::start(keys, canvas.inputs(), deliver).map_err(unusable)?;
        let lost = keyboard::lost().map_err(unusable)?;
        Ok(Self { app: App::new(settings), canvas, batches, lost, started: Instant::now() })
    }

    /// Takes the terminal and shows the end of the session to continue, if that is a long one. The inline form prints
    /// its content for good, and has to wait for the beginning.
    ///
    /// # Errors
    /// The terminal cannot be used.
    pub(super) fn of_long_session(base: &Base, args: &RunArgs, settings: &UiSettings) -> Result<Option<Self>> {
        let Some(end) = end_of_session(base, args).filter(|_| !settings.is_inline) else { return Ok(None) };
        let mut opening = Self::new(base, settings.clone())?;
        let end = end.into_iter().map(|event| base.secrets.clean_event(event)).collect();
        let (branch, directory) = (lists::branch(base), shown_directory(&base.workspace));
        let facts = Facts { branch, directory, ..Facts::default() };
        let note = Input::Note(Tone::Plain, "reading the rest of the session …".to_owned());
        for input in [Input::Facts(facts), Input::Session(end), note] {
            opening.app.handle(input, opening.started.elapsed());
        }
        opening.canvas.draw(&mut opening.app, opening.started.elapsed())?;
        Ok(Some(opening))
    }
}

/// Returns the last events of the session to continue, if that is a long one. The start of the conversation reports errors.
fn end_of_session(base: &Base, args: &RunArgs) -> Option<Vec<Event>> {
    let path = continued(base, &args.options()).ok()??;
    let is_long = path.metadata().is_ok_and(|found| found.len() > 4 * END);
    let history = if is_long { last_history(&path, END).ok()? } else { None };
    // Reading the sessions of sub-agents takes longer than the first look should.
    Some(history?.into_events(None))
}
