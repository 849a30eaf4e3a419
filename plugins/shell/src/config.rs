//! The section `[plugins.shell.config]` of the user's config.

use pinion_plugin_sdk::prelude::*;

/// Part of the call's deadline that is reserved for the report, in milliseconds.
const MARGIN_MS: u32 = 2_000;

/// Settings; each one has a default.
#[derive(Deserialize, Debug)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// Default time limit of a command in seconds.
    timeout: u64,
    /// Maximum time limit in seconds, whatever the model asks for. The call's deadline applies as well.
    max_timeout: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { timeout: 120, max_timeout: 600 }
    }
}

impl Config {
    /// Reads the section.
    ///
    /// # Errors
    /// The section does not match.
    pub(crate) fn read() -> Result<Self, String> {
        config()
    }

    /// Returns the time limit of a command in milliseconds, from the seconds that the model asked for and the call's
    /// deadline.
    pub(crate) fn timeout_ms(&self, asked: Option<u64>, deadline_ms: u32) -> u32 {
        let seconds = asked.unwrap_or(self.timeout).min(self.max_timeout).max(1);
        let left = deadline_ms.saturating_sub(MARGIN_MS).max(deadline_ms / 2);
        u32::try_from(seconds.saturating_mul(1_000)).map_or(left, |asked| asked.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing;

    fn read(value: Value) -> Config {
        testing::set_config(&value);
        Config::read().unwrap()
    }

    #[test]
    fn timeout_is_bounded_by_config_and_deadline() {
        let config = read(json!({ "timeout": 10, "max-timeout": 60 }));
        assert_eq!(config.timeout_ms(None, 600_000), 10_000);
        assert_eq!(config.timeout_ms(Some(30), 600_000), 30_000);
        assert_eq!(config.timeout_ms(Some(120_000), 600_000), 60_000);
        assert_eq!(config.timeout_ms(Some(30), 20_000), 18_000);
        assert_eq!(config.timeout_ms(Some(30), 1_000), 500);
    }

    #[test]
    fn invalid_config_is_reported() {
        testing::set_config(&json!({ "timeouts": 1 }));
        assert!(Config::read().unwrap_err().contains("unknown field `timeouts`"));
    }
}
