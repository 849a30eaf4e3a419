//! Connections that end within a reply. By default a sample of the bytes, with `PINION_LONG=1` every one.

use crate::support::server::{Server, Step, answer};
use crate::support::{request, text};
use futures_util::StreamExt;
use pinion_providers::{ModelTable, ProviderConfig, build};
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

/// Each reply with the part that announces its end; the rest may be lost.
const REPLIES: [(&str, &[u8], &str); 2] = [
    ("anthropic", include_bytes!("../fixtures/anthropic/text.sse"), "\"stop_reason\":\"end_turn\""),
    ("openai-chat", include_bytes!("../fixtures/chat/text.sse"), "\"finish_reason\":\"stop\""),
];

/// Returns whether a provider takes a response for complete if only this much arrives.
async fn is_complete(provider: &str, response: &[u8]) -> bool {
    let server = Server::start(vec![Step::Send(response.to_vec()), Step::Cut]).await;
    let config = ProviderConfig {
        name: provider.to_owned(),
        base_url: Some(server.url.clone()),
        api_key: Some(SecretString::from("sk-test-0123456789abcdef")),
        ..ProviderConfig::default()
    };
    let provider = build(config, ModelTable::builtin()).unwrap();
    let request = request("claude-opus-5-5", vec![text("hi")]);
    let items: Vec<_> = provider.stream(request, CancellationToken::new()).collect().await;
    items.iter().all(Result::is_ok)
}

#[tokio::test]
async fn reply_cut_at_any_byte_is_an_error() {
    for (provider, body, end) in REPLIES {
        let complete = answer("200 OK", "content-type: text/event-stream\r\n", body);
        let end = complete.windows(end.len()).position(|window| window == end.as_bytes()).unwrap();
        let step = if std::env::var_os("PINION_LONG").is_some() { 1 } else { 29 };
        for at in (0..=end).step_by(step) {
            assert!(!is_complete(provider, &complete[..at]).await, "{provider} cut at byte {at}");
        }
        assert!(is_complete(provider, &complete).await, "{provider}");
    }
}
