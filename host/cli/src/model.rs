//! `pinion model`: which models are known.

use crate::args::ModelCommand;
use crate::compose::Base;
use crate::failure::Result;
use crate::print_out;
use pinion_providers::Model;

pub(crate) fn run(base: &Base, command: ModelCommand) -> Result<()> {
    match command {
        ModelCommand::List => list(base),
    }
}

fn list(base: &Base) -> Result<()> {
    let models = base.models()?;
    let mut table = format!("{:<44} {:>9} {:>8}   {:>16}\n", "model", "context", "output", "US$/M in, out");
    for model in models.iter() {
        table.push_str(&row(model));
    }
    print_out(&table)
}

fn row(model: &Model) -> String {
    let name = format!("{}/{}", model.provider, model.id);
    let prices =
        model.prices(0).map_or("not known".to_owned(), |prices| format!("{}, {}", prices.input, prices.output));
    format!("{name:<44} {:>9} {:>8}   {prices:>16}\n", thousands(model.context_window), thousands(model.max_output))
}

fn thousands(tokens: u64) -> String {
    if tokens >= 1_000_000 { format!("{:.1} M", tokens as f64 / 1e6) } else { format!("{} k", tokens / 1000) }
}
