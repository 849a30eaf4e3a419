//! Cases of `pinion plugin test`: they use nothing of the user, repeat, and script the world around a plugin in any language.

use super::authors::run;
use pinion_tests::{Ended, Pinion, guest};
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;

/// A project whose build copies a component.
fn project(pinion: &Pinion, component: &str, about: &str, cases: &str) {
    let build = "[build]\nsteps = [['cp', 'source.wasm', 'build/out.wasm']]\noutput = 'build/out.wasm'\n";
    pinion.write("pinion-plugin.toml", format!("name = 'tested'\nversion = '0.1.0'\n{about}\n{build}"));
    pinion.write("source.wasm", fs::read(guest(component)).unwrap());
    pinion.write("tests/cases.toml", cases);
}

fn tested(component: &str, about: &str, cases: &str) -> (Pinion, Ended) {
    let pinion = Pinion::default();
    project(&pinion, component, about, cases);
    let ended = run(&pinion, ["plugin", "test"]);
    (pinion, ended)
}

#[track_caller]
fn assert_passed(ended: &Ended) {
    assert!(ended.code == Some(0) && ended.stdout.ends_with(", 0 failed\n"), "{ended:?}");
}

const KEEPER: &str = "asks = { storage = true, secrets = true, http = true, process = true, files = 'write' }";

#[test]
fn cases_share_no_stored_values_and_repeat() {
    let case = |name: &str| {
        format!(
            "[[case]]\nname = '{name}'\ntool = 'keep'\ngrant = 'storage'\n\
             input = {{ steps = [['get', 'plugin', 'a'], ['set', 'plugin', 'a', 'x'], ['get', 'workspace', 'a'],\n\
             ['set', 'workspace', 'a', 'x'], ['get', 'plugin', 'a']] }}\ncontains = ['ok none\nok', 'ok x']\n\
             [[case.then]]\ntool = 'keep'\ninput = {{ steps = [['get', 'plugin', 'a']] }}\noutput = 'ok x'\n"
        )
        .replace("'ok none\nok'", "\"ok none\\nok\"")
    };
    let (pinion, first) = tested("keeper", KEEPER, &(case("first") + &case("second")));
    assert_passed(&first);
    assert_passed(&run(&pinion, ["plugin", "test"]));
    assert!(!pinion.home().join("plugin-storage").exists(), "values of a case are in the user's directory");
    let stored = run(&pinion, ["plugin", "storage"]);
    assert!(stored.stderr.contains("no values are stored"), "{stored:?}");
}

/// The project of someone else: its cases name the reader's own data.
#[test]
fn case_reaches_neither_secrets_nor_servers_nor_files_of_the_user() {
    let pinion = Pinion::default();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let url = format!("http://localhost:{}", server.local_addr().unwrap().port());
    let secret = "Zq7Xw3Vb9Nm2Kp5L";
    pinion.config(&format!(
        "[secrets.github]\nenv = \"GITHUB_TOKEN\"\nhosts = [\"{url}/\"]\n[plugins.tested.config]\ngreeting = \"{secret}\"\n\
         [plugins.tested.grants]\nhttp = [\"{url}/\"]\nsecrets = [\"github\"]\n[process]\nenvironment = [\"*\"]\n"
    ));
    pinion.write("../outside/key", secret);
    let outside = pinion.workspace().join("../outside").canonicalize().unwrap();
    let (file, config) = (outside.join("key"), pinion.home().join("config.toml"));
    let keeps = |name: &str, tool: &str, grants: &str, step: &str| {
        format!("[[case]]\nname = '{name}'\ntool = '{tool}'\ngrant = {grants}\ninput = {{ steps = [{step}] }}\n")
    };
    let both = format!("['http={url}', 'secrets=github']");
    let send = format!("['send', 'github', '{url}/']");
    let own = format!("secret = {{ github = {{ value = 'scripted', hosts = ['{url}/'] }} }}\n");
    let mine = "['process', 'secrets=mine']";
    let variable = "['run', 'mine', 'test -z \"$GITHUB_TOKEN\" && echo unset']";
    let cat = format!("['run', 'mine', 'cat {} >&2 || echo hidden']", config.display());
    let print = "['run', 'github', 'test $TOKEN = scripted && echo same']";
    let scripted = "secret = { mine = 'scripted', github = 'scripted' }\n";
    let cases = [
        keeps("sends", "keep_sending", &both, &send) + "contains = 'err '\n",
        keeps("sends with its own secret", "keep_sending", &both, &send)
            + &own
            + "contains = 's.c.r.i.p.t.s. .n.o. .s.e.r.v.e.r'\n",
        keeps("has", "keep", "'secrets=github'", "['has', 'github']") + "output = 'ok false'\n",
        keeps("settings", "keep", "[]", "['settings']") + "output = 'ok {}'\n",
        keeps("runs", "keep_running", "['process', 'secrets=github']", print) + "contains = 'err '\n",
        keeps("variable", "keep_running", mine, variable) + scripted + "contains = 'u.n.s.e.t'\n",
        keeps("config", "keep_running", mine, &cat) + scripted + "contains = 'h.i.d.d.e.n'\n",
        keeps("scripted", "keep_running", "['process', 'secrets=github']", print) + scripted + "contains = 's.a.m.e'\n",
    ];
    project(&pinion, "keeper", KEEPER, &cases.concat());
    let mut command = pinion.command(["plugin", "test"]);
    let output = command.env("GITHUB_TOKEN", secret).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && text.contains("8 passed, 0 failed") && !text.contains(secret), "{text}");
    assert_eq!(server.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "a case reached a real server");
    for directory in [outside.to_str().unwrap(), "/", "..", "a/../.."] {
        let grant = format!("['files={directory}:write']");
        project(&pinion, "keeper", KEEPER, &keeps("outside", "keep", &grant, "['has', 'a']"));
        let refused = run(&pinion, ["plugin", "test"]);
        assert!(refused.code == Some(1) && refused.stdout.contains("which is outside its workspace"), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), secret);
}

const FETCHED: &str = r#"
[[case]]
name = "script of a server"
tool = "fetch"
grant = ["http=https://api.example.com/", "secrets=token"]
secret = { token = "Zq7Xw3Vb9Nm2Kp5L" }
input = { requests = [{ url = "https://api.example.com/items", credential = "token" }, { url = "https://api.example.com/items" }] }
contains = ['"body":"{\"count\":1}"', '"status":304', 'application/json']
requests = ["GET https://api.example.com/items", "GET https://api.example.com/items"]

[case.server]
"api.example.com" = [
  { method = "GET", path = "/items", request-headers = { authorization = "Bearer Zq7Xw3Vb9Nm2Kp5L" }, body = { count = 1 } },
  { method = "GET", path = "/items", status = 304, headers = { etag = "x" } },
  { method = "POST", status = 201 },
]

[[case.then]]
tool = "fetch"
input = { requests = [{ method = "POST", url = "https://api.example.com/items" }, { url = "https://api.example.com/none" }, { url = "https://other.example.com/" }] }
contains = ['"status":201', '"status":404', '"denied"']
requests = ["POST https://api.example.com/items", "GET https://api.example.com/none"]
"#;

#[test]
fn servers_answer_in_order_with_scripted_secrets() {
    assert_passed(&tested("fetcher", "asks = { http = true, secrets = ['token'] }", FETCHED).1);
}

const TALKED: &str = r#"
[[case]]
name = "answers of the user"
tool = "talk"
grant = "ui"
input = { steps = [{ confirm = "Sure?" }, { select = ["Which?", ["a", "b"]] }, { input = ["Name?", ""] }, { confirm = "More?" }, { notify = ["done", 1] }] }
answer = [true, "b", "Ada", { dismiss = true }]
contains = ["Ok(true)", "Ok(1)", 'Ok("Ada")', "Dismissed"]
asked = ["Sure", "Which", "Name", "More"]
notices = "done"

[[case]]
name = "models and tools"
tool = "talk_delegating"
grant = ["model", "invoke"]
input = { steps = [{ complete = { prompt = "6 * 7?" } }, { complete = { prompt = "Again?" } }, "tools", { call = ["look", {}] }] }
completion = ["forty-two", { error = "overloaded" }]
tools = { look = { output = "looked", effects = ["reads"] }, bash = { effects = ["executes"] } }
contains = ["forty-two", "overloaded", "\nlook\n", "looked"]
prompts = ["6 * 7", "Again"]
called = "look"

[[case]]
name = "messages of the session"
tool = "talk"
grant = "session=write"
session = ["Hello there", { assistant = "Good morning" }]
input = { steps = [{ entries = ["", 10] }] }
contains = ["Hello there", "Good morning"]

[[case]]
name = "commands ask"
command = "talk"
grant = "ui"
input = '[{ "confirm": "ok?" }]'
answer = "yes"
print = "Ok(true)"
"#;

#[test]
fn users_models_tools_and_conversations_are_scripted() {
    let asks = "asks = { ui = true, invoke = true, model = true, session = 'write' }";
    let (pinion, ended) = tested("talker", asks, TALKED);
    assert_passed(&ended);
    // The completer asks a question, which it may not.
    pinion.write("tests/cases.toml", "[[case]]\nname = 'a'\ncomplete = 'talk'\ninput = 'x'\ncompletes = []\n");
    let failed = run(&pinion, ["plugin", "test"]);
    assert!(failed.code == Some(1) && failed.stdout.contains("expected completes [], got [\"Err("), "{failed:?}");
}

const HOOKED: &str = r#"
[[case]]
name = "asks about production"
hook = "before-tool-call"
grant = "hooks"
input = { tool = "deploy", arguments = { to = "production" }, effects = ["executes"] }
verdict = { ask = "production system" }

[[case.then]]
hook = "before-tool-call"
input = { tool = "deploy", arguments = { to = "staging" }, effects = ["executes"] }
verdict = "proceed"

[[case.then]]
hook = "after-tool-call"
input = { tool = "deploy", output = "db.internal.example" }
verdict = { revise = "db.[internal]" }

[[case.then]]
hook = "before-prompt"
input = "deploy it"
verdict = { add-context = "frozen until Monday" }

[[case.then]]
hook = "before-compaction"
input = { messages = 5, tokens = 1000 }
contains = "Keep the names of all migrations."
"#;

#[test]
fn hooks_are_called_with_a_payload_and_their_verdicts_compared() {
    let asks = "asks = { files = 'read', hooks = true, storage = true, ui = true }";
    let (pinion, ended) = tested("guide", asks, HOOKED);
    assert_passed(&ended);
    for (from, to, part) in [
        ("{ ask = \"production system\" }", "\"deny\"", "expected the verdict `deny`, got `ask` with"),
        ("grant = \"hooks\"\n", "", "hint: to grant it in the case: grant = [\"hooks\"]"),
        ("tool = \"deploy\", arguments", "tol = \"deploy\", arguments", "hint: for example input = { tool = "),
        ("\"before-tool-call\"", "\"before-call\"", "hint: the hooks are before-tool-call, after-tool-call"),
    ] {
        pinion.write("tests/cases.toml", HOOKED.replacen(from, to, 1));
        let failed = run(&pinion, ["plugin", "test"]);
        assert!(failed.code == Some(1) && failed.stdout.contains(part), "{part}: {failed:?}");
    }
}

const BOARD: &str = r#"
[[case]]
name = "a list becomes a tool and stays"
tool = "new_list"
input = { name = "risks" }
output = "created risks"
offers = ["list_risks", "new_list"]

[[case.then]]
tool = "list_risks"
output = "the list risks is empty"

[[case.then]]
reload = true
offers = ["new_list", "list_risks"]

[[case.then]]
settings = { anything = 1 }
tool = "list_risks"
contains = "risks"
"#;

#[test]
fn later_steps_see_offers_state_and_reloads() {
    assert_passed(&tested("guide_session", "lifetime = 'session'", BOARD).1);
}

#[test]
fn settings_of_a_case_are_its_own() {
    let cases = "[[case]]\nname = 'greets'\ntool = 'greeting'\nsettings = { greeting = 'hello' }\noutput = 'hello'\n\
                 [[case.then]]\nsettings = { greeting = 'good day' }\ntool = 'greeting'\noutput = 'good day'\n";
    assert_passed(&tested("configured", "", cases).1);
}

#[test]
fn failed_case_says_what_to_add() {
    let asks = "asks = { ui = true, invoke = true, model = true, session = 'write' }";
    let case = |more: &str, steps: &str| {
        format!("[[case]]\nname = 'a'\ntool = 'talk'\n{more}\ninput = {{ steps = [{steps}] }}\noutput = 'Ok(true)'\n")
    };
    let misfit = case("grant = 'ui'\nanswer = 'maybe'", "{ confirm = 'Sure?' }");
    let (pinion, ended) = tested("talker", asks, &misfit);
    let part = "the answer `maybe` does not fit the question `Sure?`, which needs yes or no";
    assert!(ended.code == Some(1) && ended.stdout.contains(part), "{ended:?}");
    for (cases, part) in [
        (
            case("grants = 'ui'", ""),
            "case `a`: unknown key `grants`\nhint: did you mean `grant`? the keys are name, grant",
        ),
        (case("answer = 1.5", ""), "case `a`: `answer`: an answer is `true`, `false`, an option"),
        (
            case("server = { 'a.example' = { code = 1 } }", ""),
            "`server`: unknown field `code`, expected one of `method`",
        ),
        (case("then = [{ tool = 'talk', grant = [] }]", ""), "step 1 of `then`: `grant` belongs to the case"),
    ] {
        pinion.write("tests/cases.toml", cases);
        let failed = run(&pinion, ["plugin", "test"]);
        assert!(failed.code == Some(2) && failed.stderr.contains(part), "{part}: {failed:?}");
    }
}

#[test]
fn steps_run_only_if_something_changed() {
    let pinion = Pinion::default();
    project(&pinion, "echo", "", "[[case]]\nname = 'a'\ntool = 'echo'\ninput = { message = 'x' }\ncontains = 'x'\n");
    let step = "$ cp source.wasm build/out.wasm";
    let ran = |arguments: &[&str]| {
        let ended = run(&pinion, ["plugin"].iter().chain(arguments));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stderr.contains(step)
    };
    assert!(ran(&["test"]) && !ran(&["test"]) && !ran(&["build"]));
    assert!(ran(&["build", "--force"]) && !ran(&["build", "--install"]));
    pinion.write("src/a.txt", "new");
    assert!(!ran(&["test", "--no-build"]) && ran(&["test"]));
    fs::remove_file(pinion.workspace().join("build/out.wasm")).unwrap();
    assert!(ran(&["test"]));
    let unbuilt = Pinion::default();
    project(&unbuilt, "echo", "", "[[case]]\nname = 'a'\ntool = 'echo'\n");
    let refused = run(&unbuilt, ["plugin", "test", "--no-build"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("hint: pinion plugin build"), "{refused:?}");
}

#[test]
fn contract_is_updated_with_the_copy_of_the_helper() {
    let pinion = Pinion::default();
    for (language, file) in [("js", "src/pinion/index.js"), ("go", "pinion/pinion.go"), ("rust", "pinion/src/error.rs")]
    {
        let name = format!("my-{language}");
        assert_eq!(run(&pinion, ["plugin", "new", &name, "--lang", language]).code, Some(0));
        let current = fs::read_to_string(pinion.workspace().join(&name).join(file)).unwrap();
        pinion.write(&format!("{name}/{file}"), "older");
        pinion.write(&format!("{name}/src/own.txt"), "mine");
        let updated = run(&pinion, ["plugin", "wit", &name, "--json"]);
        let report: Value = serde_json::from_str(&updated.stdout).unwrap_or_else(|_| panic!("{updated:?}"));
        assert_eq!(report["files"].as_array().unwrap().len(), 1, "{report}");
        assert_eq!(fs::read_to_string(pinion.workspace().join(&name).join(file)).unwrap(), current);
        assert_eq!(pinion.workspace().join(&name).join("wit").exists(), language != "rust");
    }
    pinion.write("plain/Cargo.toml", "[package]\nname = 'a'\n[dependencies]\npinion-plugin-sdk = '0.1'\n");
    let refused = run(&pinion, ["plugin", "wit", "plain"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("hint: update the SDK: cargo update"), "{refused:?}");
}

/// Members of `asks`, and the words that the user reads for them.
#[test]
fn asks_name_their_secrets_and_mistakes_name_their_key() {
    let pinion = Pinion::default();
    project(&pinion, "keeper", "asks = { secrets = ['github', 'npm'], storage = true }", "");
    assert_eq!(run(&pinion, ["plugin", "build", "--install"]).code, Some(0));
    let info = run(&pinion, ["plugin", "info", "tested"]);
    assert!(info.stdout.contains("use the secrets github, npm: not granted"), "{info:?}");
    assert!(info.stdout.contains("pinion plugin grant tested storage secrets=github,npm"), "{info:?}");
    assert_eq!(run(&pinion, ["plugin", "grant", "tested", "secrets=npm"]).code, Some(0));
    let beyond = run(&pinion, ["plugin", "grant", "tested", "secrets=aws"]);
    assert!(beyond.code == Some(2) && beyond.stderr.contains("it asks for "), "{beyond:?}");
    project(&pinion, "keeper", "asks = { secrets = 1 }", "");
    let wrong = run(&pinion, ["plugin", "build"]);
    assert!(wrong.stderr.contains("`true`, or the names of secrets") && wrong.stderr.contains("secrets"), "{wrong:?}");
}

#[test]
fn settings_of_a_call_replace_those_of_the_config() {
    let pinion = Pinion::default();
    let file = guest("configured");
    let call =
        |more: &[&str]| run(&pinion, ["plugin", "call", file.to_str().unwrap(), "greeting", "{}"].iter().chain(more));
    let called = call(&["--settings", r#"{"greeting": "good day"}"#]);
    assert!(called.code == Some(0) && called.stdout.starts_with("good day"), "{called:?}");
    let wrong = call(&["--settings", "[1]"]);
    assert!(wrong.code == Some(2) && wrong.stderr.contains("settings are a JSON object"), "{wrong:?}");
}
