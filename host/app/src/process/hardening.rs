//! Hardening of the process, before anything else runs.
//!
//! Programs that the agent starts run as the same user and could inspect this process. It is therefore not dumpable:
//! its memory and environment cannot be read through `/proc`, and it leaves no core dump. As `root` could still do so,
//! this process and everything that it starts give up the necessary capability. Root can open `/proc/PID/environ` with
//! other capabilities too, so its content is overwritten; the environment moves to other memory, without the keys of
//! providers.
//!
//! On systems other than Linux, only the keys are removed from the environment.

use pinion_providers::PROVIDERS;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Maximum number of open files: enough for any work, and few enough for programs that iterate over all of them.
#[cfg(unix)]
const MAX_DESCRIPTORS: u64 = 65_536;

static SECRETS: OnceLock<BTreeMap<String, SecretString>> = OnceLock::new();

/// Protects the process. Must be called before anything starts a thread.
pub fn start() {
    not_dumpable();
    give_up_tracing();
    hide_environment();
    raise_descriptor_limit();
    share_heap();
    allow_own_access();
}

/// Sets the name of the process in lists, which `pkill` uses. Must be called before [`start`], which makes the file
/// inaccessible.
pub fn rename(name: &str) {
    if cfg!(target_os = "linux") {
        // The name is a convenience.
        let _ = std::fs::write("/proc/self/comm", name);
    }
}

/// Returns a variable of the environment that the process was started with.
pub fn variable(name: &str) -> Option<String> {
    let secret = SECRETS.get().and_then(|secrets| secrets.get(name));
    secret.map(|secret| secret.expose_secret().to_owned()).or_else(|| std::env::var(name).ok())
}

/// Returns all variables of the environment that are text, including the removed ones.
pub fn variables() -> BTreeMap<String, String> {
    let rest =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let secrets = SECRETS.get().into_iter().flatten();
    rest.chain(secrets.map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))).collect()
}

fn is_key(name: &str) -> bool {
    PROVIDERS.iter().any(|provider| provider.key_variables().any(|variable| variable == name))
}

#[cfg(target_os = "linux")]
fn not_dumpable() {
    // The system refuses this to no process.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

#[cfg(not(target_os = "linux"))]
fn not_dumpable() {}

/// Gives up `CAP_SYS_PTRACE`. Without it in the bounding set, nothing that this process starts can acquire it; without
/// it in the inheritable set, nothing inherits it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no safe wrapper of these two calls is in the build")]
fn give_up_tracing() {
    const PTRACE: u32 = 1 << 19;
    const VERSION_3: u32 = 0x2008_0522;
    #[repr(C)]
    struct CapgetHeader {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Default, Clone, Copy)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    let mut header = CapgetHeader { version: VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: prctl takes numbers here; capget and capset take a header and two sets, as version 3 defines them. A
    // process without the capability is refused and needs nothing else.
    unsafe {
        libc::prctl(libc::PR_CAPBSET_DROP, 19, 0, 0, 0);
        if libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) == 0 {
            sets[0].effective &= !PTRACE;
            sets[0].permitted &= !PTRACE;
            sets[0].inheritable &= !PTRACE;
            libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr());
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn give_up_tracing() {}

/// Moves the environment to other memory, overwrites its former place and keeps the keys apart.
#[allow(
    unsafe_code,
    reason = "the environment is changed and overwritten in place, which only the first thread may do"
)]
fn hide_environment() {
    let mut secrets = BTreeMap::new();
    let shown = SystemValues::find();
    let mut seen = BTreeSet::new();
    for (name, value) in std::env::vars_os() {
        // The first of several variables with one name counts.
        if !seen.insert(name.clone()) {
            continue;
        }
        let key = name.to_str().filter(|name| is_key(name)).zip(value.to_str());
        // SAFETY: no other thread runs yet.
        unsafe {
            match key {
                Some((name, value)) => {
                    secrets.insert(name.to_owned(), SecretString::from(value));
                    std::env::remove_var(name);
                }
                None => std::env::set_var(&name, &value),
            }
        }
    }
    shown.overwrite();
    // Set once, here.
    let _ = SECRETS.set(secrets);
}

/// The values that the system shows.
struct SystemValues(Vec<(*mut u8, usize)>);

#[cfg(target_os = "linux")]
#[allow(
    unsafe_code,
    reason = "the strings that the process was started with are reached through the C environment only"
)]
impl SystemValues {
    fn find() -> Self {
        unsafe extern "C" {
            static mut environ: *mut *mut libc::c_char;
        }
        let mut values = Vec::new();
        // SAFETY: `environ` is null or an array of strings that ends with null, and no other thread changes it.
        unsafe {
            let mut entry = environ;
            while !entry.is_null() && !(*entry).is_null() {
                let text = std::ffi::CStr::from_ptr(*entry).to_bytes();
                if let Some(at) = text.iter().position(|byte| *byte == b'=') {
                    values.push(((*entry).add(at + 1).cast::<u8>(), text.len() - at - 1));
                }
                entry = entry.add(1);
            }
        }
        Self(values)
    }

    fn overwrite(self) {
        for (value, length) in self.0 {
            // SAFETY: the bytes belong to a string of the initial environment that nothing refers to any more: each
            // variable was set to a copy or removed.
            unsafe { std::ptr::write_bytes(value, 0, length) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl SystemValues {
    fn find() -> Self {
        Self(Vec::new())
    }

    fn overwrite(self) {
        drop(self.0);
    }
}

/// Returns the limit on the address space of this process in bytes (`ulimit -v`); `None` without one.
#[cfg(unix)]
pub fn address_space() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::As).current
}

#[cfg(not(unix))]
pub fn address_space() -> Option<u64> {
    None
}

/// Returns the limit on the open files of this process (`ulimit -n`); `None` without one.
#[cfg(unix)]
pub fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
pub fn open_files() -> Option<u64> {
    None
}

#[cfg(unix)]
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(MAX_DESCRIPTORS).min(MAX_DESCRIPTORS);
    if current.is_some_and(|current| current < wanted) {
        // With fewer descriptors, shares are smaller.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

#[cfg(not(unix))]
fn raise_descriptor_limit() {}

/// Lets all threads allocate from one arena, and extends it by a megabyte. Other arenas grow page by page, with a system
/// call for each that blocks the page faults of all threads: hundreds in a run.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the C library has no safe interface to its allocator")]
fn share_heap() {
    // SAFETY: both calls take numbers, before a second thread allocates. A refused setting changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TOP_PAD, 1 << 20);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn share_heap() {}

/// Removes the owner's permissions from a umask such as 777, because this program could not use its own directories
/// otherwise.
#[cfg(unix)]
fn allow_own_access() {
    use rustix::fs::Mode;
    let before = rustix::process::umask(Mode::RWXU);
    rustix::process::umask(before - Mode::RWXU);
}

#[cfg(not(unix))]
fn allow_own_access() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_providers_are_known() {
        for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_API_KEY"] {
            assert!(is_key(name), "{name}");
        }
        assert!(!is_key("PATH") && !is_key("HTTPS_PROXY"));
    }
}
