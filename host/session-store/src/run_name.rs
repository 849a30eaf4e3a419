//! Ids of runs, taken apart.

/// The parts of a run's id, `SESSION.CONFIG.NUMBER`. A session's id has no dot; the name of a configuration may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunName<'a> {
    /// The session's id.
    pub session: &'a str,
    /// The configuration of the model, `PROVIDER.MODEL` unless the application named it.
    pub config: &'a str,
    /// The number of the run among the runs with this configuration in the session, from 1.
    pub number: u64,
}

impl<'a> RunName<'a> {
    /// Splits a run's id; `None` when it has another form.
    pub fn parse(run_id: &'a str) -> Option<Self> {
        let (session, rest) = run_id.split_once('.')?;
        let (config, number) = rest.rsplit_once('.')?;
        if session.is_empty() || config.is_empty() {
            return None;
        }
        Some(Self { session, config, number: number.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_splits_into_session_config_and_number() {
        let name = RunName::parse("0d2f-1.anthropic.claude-4.5.12").unwrap();
        assert_eq!(name, RunName { session: "0d2f-1", config: "anthropic.claude-4.5", number: 12 });
        for wrong in ["", "a", "a.b", "a.1", ".b.1", "a..1", "a.b.", "a.b.-1", "a.b.x"] {
            assert_eq!(RunName::parse(wrong), None, "{wrong:?}");
        }
    }
}
