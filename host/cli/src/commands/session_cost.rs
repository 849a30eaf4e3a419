//! `pinion session cost`: the cost of a session by turn, tool, server or file.

use pinion_app::failure::{Failure, Result};
use pinion_console::output::terminal::Style;
use pinion_console::output::{self, page, print, text, written};
use pinion_conversation::cost::{CostGroup, cost_json, cost_table};
use pinion_session_store::{History, SessionDirectory};

/// Prints the cost of a session.
pub(super) fn session_cost(directory: &SessionDirectory, id: &str, group: CostGroup, is_json: bool) -> Result<()> {
    let path = directory.find(id).map_err(Failure::from)?;
    let events = History::read(&path).map_err(Failure::from)?.into_events(Some(&path));
    match is_json {
        true => written(output::json(&cost_json(group, &events))),
        false => print(&text!("{}\n", page(&cost_table(group, &events), Style::of_stdout()))),
    }
}
