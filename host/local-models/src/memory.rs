//! The free memory of the machine.

use pinion_files::open::read_limited;
use std::path::Path;

/// Maximum bytes of the system's figures.
const MAX_TEXT: u64 = 64 << 10;

/// Returns the bytes that programs can still take without swapping; `None` where the system does not say.
#[cfg_attr(not(feature = "engine"), expect(dead_code, reason = "the engine asks"))]
pub(crate) fn available_memory() -> Option<u64> {
    let text = read_limited(Path::new("/proc/meminfo"), MAX_TEXT).ok()?;
    available_in(&String::from_utf8_lossy(&text))
}

fn available_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_in_bytes() {
        assert_eq!(available_in("MemTotal:  9 kB\nMemAvailable:   1234 kB\n"), Some(1234 << 10));
        assert_eq!(available_in("MemAvailable: lots\n"), None);
    }
}
