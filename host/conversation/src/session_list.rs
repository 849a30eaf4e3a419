//! Sessions in lists.

use jiff::Timestamp;
use pinion_app::sessions::short_id;
use pinion_console::output::{PartExt as _, Text, age, fit, left, text};
use pinion_session_store::{Runs, Summary, Transcript};
use serde_json::{Value, json};

/// Columns of a title.
const TITLE: usize = 27;
/// Columns of the name of a model.
const MODEL: usize = 20;

/// Describes a session in one line: a prefix of its ID, its age, its turns, cost and model, and its title.
pub fn line(summary: &Summary) -> Text {
    let age = age(Timestamp::now().duration_since(summary.last_activity).as_secs());
    let title = summary.title.as_deref().unwrap_or("(no prompt)");
    let work = Work::read_records(summary);
    let cost = work.cost.map_or_else(|| "–".to_owned(), |cost| format!("${cost:.2}"));
    let id = short_id(&summary.id);
    columns([id.text(), age.text(), work.turns.text(), cost.text(), fit(&work.model, MODEL), fit(title, TITLE)])
}

/// Describes a session for programs.
pub fn described(summary: &Summary) -> Value {
    let work = Work::read_records(summary);
    json!({
        "id": summary.id,
        "title": summary.title,
        "last_used": summary.last_activity.to_string(),
        "turns": work.turns,
        "cost": work.cost,
        "model": if work.model.is_empty() { None } else { Some(work.model) },
        "workspace": summary.header.as_ref().map(|header| &header.workspace),
        "bytes": summary.size,
    })
}

/// Returns the columns of a line.
pub fn columns([id, age, turns, cost, model, title]: [Text; 6]) -> Text {
    text!("{} {} {} {} {} {}", left(id, 8), left(age, 9), left(turns, 5), left(cost, 6), left(model, MODEL), title)
}

/// The sum of the runs of a session.
#[derive(Default)]
struct Work {
    turns: u32,
    /// The cost in US dollars; `None` until a run with known prices has ended.
    cost: Option<f64>,
    /// The model of the last run.
    model: String,
}

impl Work {
    /// Reads the records of a session. One that cannot be read is listed without them.
    fn read_records(summary: &Summary) -> Self {
        let runs = Transcript::open(&summary.path).and_then(|mut transcript| transcript.runs());
        let mut work = Self::default();
        for run in runs.iter().flat_map(Runs::iter) {
            let model = run.start.as_ref().and_then(|start| start.start.model.clone());
            work.model = model.unwrap_or(work.model);
            if let Some((_, end)) = &run.end {
                work.turns = work.turns.saturating_add(end.turns);
                work.cost = end.cost.map(|cost| work.cost.unwrap_or_default() + cost.total()).or(work.cost);
            }
        }
        work
    }
}
