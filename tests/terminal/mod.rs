//! The terminal: the screen, its keys, other terminals and multiplexers.

#[cfg(target_os = "linux")]
mod full_screen;
mod gnu_screen;
#[cfg(target_os = "linux")]
mod inline;
#[cfg(target_os = "linux")]
pub(crate) mod keys;
#[cfg(target_os = "linux")]
mod screen_input;
#[cfg(target_os = "linux")]
mod themes;
mod tmux;
mod zellij;
