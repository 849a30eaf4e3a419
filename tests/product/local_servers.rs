//! Models of servers on the user's machine, which need neither a key nor configuration.

use pinion_tests::{HttpServer, Pinion, Terminal, answer};
use std::process::Command;

const SIZE: (u16, u16) = (100, 30);

/// Starts Ollama, llama.cpp and LM Studio behind one address. Ollama replies to a conversation.
async fn servers() -> HttpServer {
    HttpServer::start(|request| {
        let json = |text: &'static str| answer(200, &[("content-type", "application/json")], text);
        match request.uri().path() {
            "/api/tags" => json(r#"{"models":[{"name":"moondream:latest"},{"name":"qwen3:8b"}]}"#),
            "/api/ps" => json(r#"{"models":[{"name":"qwen3:8b","context_length":8192}]}"#),
            "/llama/v1/models" => json(r#"{"data":[{"id":"tiny.gguf","owned_by":"llamacpp"}]}"#),
            "/studio/api/v0/models" => json(r#"{"data":[{"id":"gemma","type":"llm","state":"not-loaded"}]}"#),
            "/api/chat" => answer(
                200,
                &[("content-type", "application/x-ndjson")],
                "{\"message\":{\"role\":\"assistant\",\"content\":\"from the moon\"},\"done\":true,\"done_reason\":\"stop\"}\n",
            ),
            _ => answer(404, &[], ""),
        }
    })
    .await
}

fn command<const N: usize>(pinion: &Pinion, server: &HttpServer, arguments: [&str; N]) -> Command {
    let mut command = pinion.default_command(arguments);
    command.env("OLLAMA_HOST", server.url(""));
    command.env("LLAMA_CPP_BASE_URL", server.url("/llama/v1")).env("LM_STUDIO_BASE_URL", server.url("/studio/v1"));
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_offers_models_that_need_no_key() {
    let (server, pinion) = (servers().await, Pinion::default());
    let mut terminal = Terminal::start(&command(&pinion, &server, []), SIZE, "");
    tokio::task::spawn_blocking(move || {
        terminal.wait_for("llama-cpp/tiny.gguf");
        terminal.keys("moon");
        terminal.wait_for("1 of ");
        terminal.keys("\r");
        terminal.wait_for("lists commands");
        terminal.keys("hi\r");
        terminal.wait_for("from the moon");
        assert_eq!(terminal.exit().0, Some(0));
        let config = std::fs::read_to_string(pinion.home().join("config.toml")).unwrap();
        assert!(config.starts_with("model = \"ollama/moondream:latest\"\n"), "{config}");
    })
    .await
    .unwrap();
    let asked = server.lines();
    for request in ["GET /api/tags", "GET /api/ps", "GET /llama/v1/models", "GET /studio/api/v0/models"] {
        assert!(asked.iter().any(|line| line == request), "{request}: {asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn list_of_models_says_what_is_loaded_on_this_machine() {
    let (server, pinion) = (servers().await, Pinion::default());
    let mut terminal = Terminal::start(&command(&pinion, &server, ["-m", "ollama/moondream:latest"]), SIZE, "");
    tokio::task::spawn_blocking(move || {
        terminal.wait_for("lists commands");
        terminal.keys("\x1bm");
        terminal.wait_for("models ");
        terminal.wait_for("on this machine, loaded");
        terminal.wait_for("lm-studio/gemma");
        // Escape, as an unambiguous sequence.
        terminal.keys("\x1b[27u");
        assert_eq!(terminal.exit().0, Some(0));
    })
    .await
    .unwrap();
}

/// The default build has no engine for models, and says which build has.
#[test]
fn model_of_this_process_needs_a_build_that_runs_models() {
    let pinion = Pinion::default();
    let ended = pinion.run(["-p", "-m", "local/qwen3", "hi"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("--features local-models"), "{ended:?}");
}
