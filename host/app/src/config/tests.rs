use super::*;
use pinion_agent::delegation::WorkDirectory;
use pinion_plugin_runtime::FileAccess;
use std::fs;
use tempfile::TempDir;

struct Setup {
    directory: TempDir,
}

impl Setup {
    fn new(user: &str, project: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let setup = Self { directory };
        fs::create_dir_all(setup.workspace().join(".pinion")).unwrap();
        fs::write(setup.paths().config_file(), user.replace("{workspace}", &setup.workspace().to_string_lossy()))
            .unwrap();
        fs::write(setup.workspace().join(".pinion/config.toml"), project).unwrap();
        setup
    }

    fn paths(&self) -> Paths {
        let home = self.directory.path().canonicalize().unwrap();
        Paths { config: home.clone(), data: home.clone(), cache: home }
    }

    fn workspace(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work")
    }

    fn load(&self, options: &RunOptions) -> Result<Config> {
        Config::load(&self.paths(), &self.workspace(), options)
    }
}

#[test]
fn defaults_are_valid_and_match_the_documented_limits() {
    let config = Setup::new("", "").load(&RunOptions::default()).unwrap();
    assert_eq!(config.limits, RunLimits::default());
    assert_eq!(config.approve, ApprovalMode::Smart);
    assert_eq!((config.cache, &config.compaction), (CachePolicy::Auto, &CompactionPolicy::default()));
    assert_eq!(config.plugins["fs"].grants.files[Path::new(".")], FileAccess::Write);
}

#[test]
fn options_override_the_users_file_which_overrides_the_defaults() {
    let setup = Setup::new("model = \"a\"\n[limits]\nmax-turns = 3\n", "");
    let config = setup.load(&RunOptions { model: Some("b".to_owned()), ..RunOptions::default() }).unwrap();
    assert_eq!((config.model.as_deref(), config.limits.max_turns), (Some("b"), Some(3)));
    assert_eq!(config.limits.max_tokens, Some(1_000_000));
    assert_eq!((config.limits.max_input_tokens, config.limits.max_output_tokens), (None, None));
    let setup = Setup::new("[limits]\nmax-input-tokens = 9\nmax-output-tokens = 8\n", "");
    let limits = setup.load(&RunOptions { max_output_tokens: Some(7), ..RunOptions::default() }).unwrap().limits;
    assert_eq!((limits.max_input_tokens, limits.max_output_tokens), (Some(9), Some(7)));
    let setup = Setup::new("model = \"a\"\n[limits]\nmax-turns = 3\n", "");
    assert_eq!(
        setup.load(&RunOptions { max_turns: Some(7), ..RunOptions::default() }).unwrap().limits.max_turns,
        Some(7)
    );
}

#[test]
fn conversation_has_only_the_limits_that_the_user_and_the_project_set() {
    let setup = Setup::new("[limits]\nmax-turns = 3\n", "");
    let limits = |is_watched| {
        let merged = users_over(defaults(is_watched).unwrap(), &setup.paths()).unwrap();
        limits(&typed(&merged).unwrap().limits, &RunOptions { max_cost: Some(2.0), ..RunOptions::default() })
    };
    let set = RunLimits { max_turns: Some(3), max_cost: Some(2.0), ..RunLimits::NONE };
    assert_eq!(limits(true), set);
    assert_eq!(limits(false), RunLimits { max_turns: Some(3), max_cost: Some(2.0), ..RunLimits::default() });
}

#[test]
fn cache_thinking_budget_and_compaction_are_configurable() {
    let text = "cache = \"off\"\nthinking-budget = 2000\n[compaction]\nautomatic = false\ntool-output-max-lines = 7\n";
    let config = Setup::new(text, "").load(&RunOptions::default()).unwrap();
    assert_eq!((config.cache, config.thinking_budget), (CachePolicy::Off, Some(2000)));
    let expected = CompactionPolicy { automatic: false, tool_output_max_lines: 7, ..CompactionPolicy::default() };
    assert_eq!(config.compaction, expected);
}

#[test]
fn requests_and_retries_are_configurable() {
    let text = "temperature = 0.5\nmax-output-tokens = 900\nthinking = \"high\"\nthinking-budgets = { high = 7000 }\n\
                [retry]\nattempts = 0\nmax-seconds = 0.5\n";
    let config = Setup::new(text, "").load(&RunOptions::default()).unwrap();
    assert_eq!((config.temperature, config.max_output_tokens), (Some(0.5), Some(900)));
    assert_eq!((config.thinking_budgets.get(&ThinkingLevel::High), config.retry.max_attempts), (Some(&7000), 0));
    assert_eq!(config.retry.max, Duration::from_millis(500));
    for wrong in ["temperature = 3", "temperature = nan", "[retry]\nmax-seconds = -1"] {
        assert!(Setup::new(wrong, "").load(&RunOptions::default()).is_err(), "{wrong}");
    }
}

#[test]
fn project_can_only_narrow_the_tools() {
    let user = "tools = [\"read\", \"bash\"]\nexclude-tools = [\"write\"]\ntrusted = [\"{workspace}\"]\n";
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let narrow =
        Setup::new(user, "tools = [\"read\"]\nexclude-tools = [\"edit\"]\n").load(&RunOptions::default()).unwrap();
    assert_eq!((narrow.tools, narrow.exclude_tools), (Some(names(&["read"])), names(&["write", "edit"])));
    let wide =
        Setup::new(user, "tools = [\"read\", \"task\"]\nexclude-tools = []\n").load(&RunOptions::default()).unwrap();
    assert_eq!((wide.tools, wide.exclude_tools), (Some(names(&["read", "bash"])), names(&["write"])));
    assert!(wide.notices[0].contains("only narrow"), "{:?}", wide.notices);
}

#[test]
fn agent_kinds_are_read_and_nesting_is_limited() {
    let text = "[agents]\nmax-depth = 2\n[agents.kinds.reader]\ndescription = \"reads\"\nmodels = [\"a\", \"b\"]\n\
                thinking = \"high\"\nsystem-prompt = \"You read.\"\n";
    let agents = Setup::new(text, "").load(&RunOptions::default()).unwrap().sub_agents;
    assert_eq!((agents.max_depth, agents.max_turns, agents.kinds.len()), (2, 50, 1));
    assert_eq!((agents.kinds[0].name.as_str(), agents.kinds[0].attempts.unwrap().count), ("reader", 2));
    assert_eq!(agents.kinds[0].thinking, Some(ThinkingLevel::High));
    assert_eq!(agents.kinds[0].system_prompt.as_deref(), Some("You read."));
    assert_eq!(agents.kinds[0].directory, WorkDirectory::Parent);
    let copy = "[agents.kinds.writer]\ndescription = \"writes\"\ndirectory = \"copy\"\n";
    let agents = Setup::new(copy, "").load(&RunOptions::default()).unwrap().sub_agents;
    assert_eq!(agents.kinds[0].directory, WorkDirectory::Copy);
    let several = Setup::new(&format!("{copy}attempts = 2\n"), "").load(&RunOptions::default()).unwrap_err();
    assert!(several.to_string().contains("`[agents.kinds.writer]` allows one attempt only"), "{several}");
    let error = Setup::new("[agents]\nmax-depth = 9\n", "").load(&RunOptions::default()).unwrap_err().to_string();
    assert!(error.contains("`max-depth` of `[agents]` is 9, more than the maximum of 3"), "{error}");
}

#[test]
fn only_a_trusted_project_is_read_and_it_cannot_widen_anything() {
    let project = "trusted = [\"/\"]\napprove = \"all\"\nmodel = \"small\"\n";
    let config = Setup::new("", project).load(&RunOptions::default()).unwrap();
    assert_eq!((config.approve, config.model.as_deref()), (ApprovalMode::Smart, None));
    let config = Setup::new("trusted = [\"{workspace}\"]", project).load(&RunOptions::default()).unwrap();
    assert_eq!((config.approve, config.model.as_deref()), (ApprovalMode::Smart, Some("small")));
    assert_eq!(config.notices.len(), 2, "{:?}", config.notices);
}

#[test]
fn trusted_entry_without_a_fixed_directory_is_refused() {
    for entry in
        [".", "", "work", "./", "../work", "/proc/self/cwd", "/proc//self/./cwd/", "/dev/fd/3", "/x/../proc/1/cwd"]
    {
        let error =
            Setup::new(&format!("trusted = [{entry:?}]"), "").load(&RunOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{entry}`")) && error.contains("hint:"), "{error}");
    }
}

#[test]
fn invalid_config_of_a_trusted_project_is_ignored_with_a_notice() {
    for project in ["= nonsense", "thinking = 3", "compaction = 1\n[compaction]\n"] {
        let config = Setup::new("trusted = [\"{workspace}\"]", project).load(&RunOptions::default()).unwrap();
        assert!(config.notices[0].contains("is not used"), "{:?}", config.notices);
    }
}

#[test]
fn invalid_config_of_an_untrusted_project_is_harmless() {
    assert!(Setup::new("", "= nonsense").load(&RunOptions::default()).is_ok());
}

#[test]
fn error_names_the_file_the_line_and_the_key() {
    let error = Setup::new("model = \"a\"\nmodle = \"b\"\n", "").load(&RunOptions::default()).unwrap_err().to_string();
    for part in ["config.toml", "line 2", "modle"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn mistyped_key_gets_a_suggestion_instead_of_a_list() {
    let error = Setup::new("modle = \"b\"\n", "").load(&RunOptions::default()).unwrap_err().to_string();
    assert!(error.contains("did you mean `model`?") && !error.contains("`fallback`"), "{error}");
    let error = Setup::new("approve = \"smrt\"\n", "").load(&RunOptions::default()).unwrap_err().to_string();
    assert!(error.contains("did you mean `smart`?"), "{error}");
    let error = Setup::new("something-else = 1\n", "").load(&RunOptions::default()).unwrap_err().to_string();
    assert!(error.contains("`model`") && !error.contains("did you mean"), "{error}");
    let error = Setup::new("[limits]\nmax-cost = \"x\"\n", "").load(&RunOptions::default()).unwrap_err().to_string();
    assert!(error.contains("expected a number"), "{error}");
}

#[test]
fn user_grants_replace_the_default_grants() {
    let setup = Setup::new("[plugins.fs.grants]\nfiles = { src = \"read\" }\n", "");
    let files = setup.load(&RunOptions::default()).unwrap().plugins["fs"].grants.files.clone();
    assert_eq!(files, BTreeMap::from([(PathBuf::from("src"), FileAccess::Read)]));
}
