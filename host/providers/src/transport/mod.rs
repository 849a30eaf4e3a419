//! HTTP: requests out, answers in, and the meaning of a refusal.

mod classify;
mod exchange;
mod failure;
mod http;
mod image_refusal;
mod proxy;
mod retry_after;

pub(crate) use classify::classify_object;
pub(crate) use exchange::{Opened, exchange};
pub use http::HttpSettings;
pub(crate) use http::{Outgoing, RawAnswer, Transport, reply};
pub(crate) use image_refusal::{refuses_all_images, refuses_image};
pub use proxy::{ChosenProxy, ProxyError, ProxySettings, ProxyUrl};
