//! Remembers the images that a server refused, so that no later request contains them.
//!
//! An image is part of every later request of its conversation. If the server refuses the request because of it, the
//! conversation could never continue. The vendor's answer rarely says which image it means. So the images that the server
//! has not accepted before are left out first, and all of them if that does not help.

use crate::models::{ModelSpec, same_model};
use crate::transport::{refuses_all_images, refuses_image};
use futures_util::StreamExt;
use pinion_protocol::{
    AssistantMessage, Content, EventStream, Image, Message, ProviderError, Request, StreamEvent, ToolResultMessage,
    UserMessage,
};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Replaces an image that the server refused.
const REFUSED: &str = "[picture left out: the model's server refused it]";

/// The limit on remembered images of each kind. Beyond, all are forgotten, at the cost of another refusal.
const MAX_REMEMBERED: usize = 4_096;

/// The bytes at each end of an image that identify it, together with its size.
const ENDS: usize = 4_096;

/// The images that one provider's server refused or accepted.
#[derive(Debug, Default)]
pub(super) struct RefusedImages(Mutex<KnownRefusals>);

#[derive(Debug, Default)]
struct KnownRefusals {
    refused: HashSet<u64>,
    accepted: HashSet<u64>,
    /// Models that refuse every image.
    blind: Vec<String>,
}

impl RefusedImages {
    /// Replaces the images that the server refused.
    pub(super) fn without_refused(&self, request: Request) -> Request {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_blind = known.blind.iter().any(|model| same_model(model, &request.model));
        if known.refused.is_empty() && !is_blind {
            return request;
        }
        let is_refused = |image: &Image| is_blind || known.refused.contains(&key(image));
        let messages = request.messages.iter().map(|message| without(message, &is_refused)).collect();
        Request { messages, ..request }
    }

    /// Watches the reply to a request: learns which images the server accepts, and reports a refusal as
    /// [`ProviderError::ImageRefused`].
    pub(super) fn watch(self: &Arc<Self>, request: &Request, model: &ModelSpec, reply: EventStream) -> EventStream {
        let sent: HashSet<u64> = images(request).filter(|_| model.images).map(key).collect();
        if sent.is_empty() {
            return reply;
        }
        let (known, name) = (self.clone(), request.model.clone());
        let mut is_accepted = false;
        reply
            .map(move |item| match item {
                Ok(event) => {
                    if !is_accepted && matches!(event, StreamEvent::PartStart { .. } | StreamEvent::End { .. }) {
                        is_accepted = true;
                        known.accept(&sent);
                    }
                    Ok(event)
                }
                Err(error) if is_accepted => Err(error),
                Err(error) => Err(known.refuse(error, &name, &sent)),
            })
            .boxed()
    }

    fn accept(&self, sent: &HashSet<u64>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.accepted.len() > MAX_REMEMBERED {
            known.accepted.clear();
        }
        known.accepted.extend(sent);
    }

    fn refuse(&self, error: ProviderError, model: &str, sent: &HashSet<u64>) -> ProviderError {
        let message = match error {
            ProviderError::ImageRefused { message } => message,
            ProviderError::Api { message, .. } | ProviderError::Overloaded { message, .. }
                if refuses_image(&message) =>
            {
                message
            }
            other => return other,
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refuses_all_images(&message) {
            if known.blind.len() > MAX_REMEMBERED {
                known.blind.clear();
            }
            known.blind.push(model.to_owned());
            let remedy = "declare the model with `images = false`";
            return ProviderError::ImageRefused {
                message: format!("{message}; images are left out for `{model}` from now on; {remedy}"),
            };
        }
        if known.refused.len() > MAX_REMEMBERED {
            known.refused.clear();
        }
        let new: Vec<u64> = sent.difference(&known.accepted).copied().collect();
        match new.is_empty() {
            false => known.refused.extend(new),
            true => known.refused.extend(sent),
        }
        ProviderError::ImageRefused { message: format!("{message}; the image is left out from now on") }
    }
}

/// Identifies an image by its size and its ends.
fn key(image: &Image) -> u64 {
    let data = &image.data[..];
    let start = &data[..data.len().min(ENDS)];
    let end = &data[data.len().saturating_sub(ENDS)..];
    let size = (data.len() as u64).to_le_bytes();
    let bytes = size.iter().chain(start).chain(end);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn content(message: &Message) -> &[Content] {
    match message {
        Message::User(UserMessage { content, .. })
        | Message::Assistant(AssistantMessage { content, .. })
        | Message::ToolResult(ToolResultMessage { content, .. }) => content,
        Message::Extension(_) => &[],
    }
}

fn images(request: &Request) -> impl Iterator<Item = &Image> {
    let parts = request.messages.iter().flat_map(|message| content(message));
    parts.filter_map(|part| match part {
        Content::Image(image) => Some(image),
        _ => None,
    })
}

fn without(message: &Arc<Message>, is_refused: &dyn Fn(&Image) -> bool) -> Arc<Message> {
    let is_left_out = |part: &Content| matches!(part, Content::Image(image) if is_refused(image));
    if !content(message).iter().any(is_left_out) {
        return message.clone();
    }
    let replaced = |parts: &[Content]| -> Vec<Content> {
        parts.iter().map(|part| if is_left_out(part) { Content::text(REFUSED) } else { part.clone() }).collect()
    };
    Arc::new(match &**message {
        Message::User(user) => Message::User(UserMessage { content: replaced(&user.content), ..user.clone() }),
        Message::ToolResult(result) => {
            Message::ToolResult(ToolResultMessage { content: replaced(&result.content), ..result.clone() })
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ModelTable;
    use futures_util::stream;
    use jiff::Timestamp;
    use pinion_protocol::{RequestOptions, StopReason, ToolChoice};

    fn request(images: &[&[u8]]) -> Request {
        let image = |data: &&[u8]| Content::Image(Image { media_type: "image/png".to_owned(), data: data.to_vec() });
        let content = images.iter().map(image).collect();
        let user = UserMessage { content, label: None, timestamp: Timestamp::UNIX_EPOCH };
        Request {
            model: "m".to_owned(),
            system: "".into(),
            messages: vec![Arc::new(Message::User(user))],
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            options: RequestOptions::default(),
        }
    }

    /// Sends a request to a server that answers so, and returns the number of images in it and the error.
    async fn ask(
        known: &Arc<RefusedImages>,
        images: &[&[u8]],
        answer: Result<StreamEvent, ProviderError>,
    ) -> (usize, Option<ProviderError>) {
        let request = known.without_refused(request(images));
        let model = ModelTable::builtin().find("p", "m");
        let count = super::images(&request).count();
        let reply = known.watch(&request, &model, stream::iter([answer]).boxed());
        let items: Vec<_> = reply.collect().await;
        (count, items.into_iter().find_map(Result::err))
    }

    fn bad() -> Result<StreamEvent, ProviderError> {
        Err(ProviderError::Api { status: Some(400), message: "Could not process image".to_owned() })
    }

    #[tokio::test]
    async fn images_that_were_accepted_are_the_last_to_go() {
        let known = Arc::new(RefusedImages::default());
        let end = || Ok(StreamEvent::End { stop_reason: StopReason::Stop });
        assert_eq!(ask(&known, &[b"good"], end()).await, (1, None));
        let (count, error) = ask(&known, &[b"good", b"bad"], bad()).await;
        assert!(count == 2 && matches!(error, Some(ProviderError::ImageRefused { .. })));
        assert_eq!(ask(&known, &[b"good", b"bad"], end()).await, (1, None));
        let (count, error) = ask(&known, &[b"good", b"bad"], bad()).await;
        assert!(count == 1 && matches!(error, Some(ProviderError::ImageRefused { .. })));
        let (count, error) = ask(&known, &[b"good", b"bad"], bad()).await;
        assert!(count == 0 && matches!(error, Some(ProviderError::Api { .. })));
    }

    #[tokio::test]
    async fn blind_model_gets_no_images_any_more() {
        let known = Arc::new(RefusedImages::default());
        let message = "image input is not supported".to_owned();
        let (_, error) = ask(&known, &[b"a"], Err(ProviderError::Overloaded { message, retry_after: None })).await;
        let Some(ProviderError::ImageRefused { message }) = error else { panic!("{error:?}") };
        assert!(message.contains("`images = false`"));
        assert_eq!(ask(&known, &[b"b"], bad()).await.0, 0);
    }
}
