//! Tests of the crate's public interface.

#![allow(clippy::unwrap_used, clippy::panic, reason = "clippy allows them in tests, but not in what tests share")]

mod accepted;
mod anthropic_body;
mod anthropic_stream;
mod bodies;
mod chat_body;
mod chat_stream;
mod cuts;
mod fallback;
mod fixtures;
mod google;
mod http;
mod key_check;
mod keys;
mod local_servers;
mod login;
mod network;
mod ollama_models;
mod recording;
mod refused_images;
mod replay;
mod secrets;
mod served_window;
mod support;
mod thinking_back;
mod unknown;
mod vendors;
