//! Attempts everything that a plugin must not be able to do. Each tool is one attack; the tests assert its failure.

mod bounds;
mod escape;
mod exhaust;
mod programs;
mod random;
mod traces;

use pinion_plugin_sdk::prelude::*;

struct Hostile;

impl Plugin for Hostile {
    fn tools() -> Vec<Tool> {
        [bounds::tools(), escape::tools(), exhaust::tools(), programs::tools(), random::tools(), traces::tools()]
            .into_iter()
            .flatten()
            .collect()
    }
}

export!(Hostile, exports = [tools], asks = { "files": "write", "process": true });
