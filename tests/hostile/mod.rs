//! Attacks by hostile plugins, repositories, servers and models, one module per guarantee of `host/ARCHITECTURE.md`.

mod approval;
mod authority;
mod bounds;
mod consent;
mod descriptions;
mod directories;
mod fuzz;
mod grants;
mod hooks;
mod http;
mod loading;
mod offers;
mod plugin_secrets;
mod prompts;
mod protected;
mod random_calls;
mod repository;
mod secrets;
mod shares;
mod steps;
mod storage;
mod terminal;
mod trust;
