//! An image that the server refuses does not end its conversation.

use crate::support::server::{Server, Step, answer};
use crate::support::{png, request, text, user};
use futures_util::StreamExt;
use pinion_protocol::{Content, Provider, ProviderError, Request};
use pinion_providers::{ModelTable, ProviderConfig, build};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const LEFT_OUT: &str = "[picture left out: the model's server refused it]";

async fn refusing(format: &str, status: &str, message: &str) -> (Server, Arc<dyn Provider>) {
    let body = serde_json::json!({ "error": { "message": message } }).to_string();
    let server =
        Server::start(vec![Step::Send(answer(status, "content-type: application/json\r\n", body.as_bytes()))]).await;
    let config =
        ProviderConfig { name: format.to_owned(), base_url: Some(server.url.clone()), ..ProviderConfig::default() };
    let provider = build(config, ModelTable::builtin()).unwrap();
    (server, provider)
}

fn asked() -> Request {
    request("mock", vec![user(vec![Content::text("see"), png()])])
}

async fn error(provider: &Arc<dyn Provider>, request: Request) -> ProviderError {
    let items: Vec<_> = provider.stream(request, CancellationToken::new()).collect().await;
    items.into_iter().find_map(Result::err).unwrap()
}

#[tokio::test]
async fn refused_image_is_left_out_of_later_requests() {
    for (format, status, message) in [
        ("openai-chat", "400 Bad Request", "Could not process image"),
        ("openai-chat", "500 Internal Server Error", "image input is not supported - hint: provide the mmproj"),
        ("openai-responses", "400 Bad Request", "The image data you provided does not represent a valid image."),
        ("anthropic", "400 Bad Request", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
        ("gemini", "400 Bad Request", "Unable to process input image. Please retry."),
        ("ollama", "500 Internal Server Error", "this model is missing data required for image input"),
    ] {
        let (server, provider) = refusing(format, status, message).await;
        let refused = error(&provider, asked()).await;
        assert!(
            matches!(&refused, ProviderError::ImageRefused { message: text } if text.contains(message)),
            "{refused:?}"
        );
        assert!(refused.is_retryable());
        // Without an image, the same answer is about something else.
        assert!(!matches!(error(&provider, asked()).await, ProviderError::ImageRefused { .. }));
        let bodies: Vec<String> =
            server.seen().iter().map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect();
        assert!(bodies[0].contains("cG5n") && !bodies[0].contains(LEFT_OUT), "{}", bodies[0]);
        assert!(!bodies[1].contains("cG5n") && bodies[1].contains(LEFT_OUT), "{}", bodies[1]);
    }
}

#[tokio::test]
async fn refusal_about_something_else_is_no_refused_image() {
    let (_server, provider) = refusing("openai-chat", "400 Bad Request", "max_tokens is too large").await;
    assert!(matches!(error(&provider, asked()).await, ProviderError::Api { status: Some(400), .. }));
    let (_server, provider) = refusing("openai-chat", "400 Bad Request", "Could not process image").await;
    let no_image = request("mock", vec![text("hi")]);
    assert!(matches!(error(&provider, no_image).await, ProviderError::Api { status: Some(400), .. }));
}
