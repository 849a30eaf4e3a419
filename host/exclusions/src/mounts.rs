//! Other mounts of the same file system, which give a file another path.

use std::path::{Path, PathBuf};

/// A mount of this process.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The device, as the system writes it.
    device: String,
    /// The directory of the file system that is mounted.
    root: PathBuf,
    /// The place where it is mounted.
    at: PathBuf,
}

/// The mounts of this process.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Vec<Mount>);

impl Mounts {
    /// Reads them; empty where the system does not list mounts.
    pub(crate) fn read() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mount = |line: &str| {
            let mut parts = line.split(' ').skip(2);
            let (device, root, at) = (parts.next()?, parts.next()?, parts.next()?);
            Some(Mount { device: device.to_owned(), root: unescaped(root), at: unescaped(at) })
        };
        Self(text.lines().filter_map(mount).collect())
    }

    /// Returns the other paths of a file. Some may not lead to it because something else is mounted over them.
    pub(crate) fn others(&self, path: &Path) -> Vec<PathBuf> {
        // Of mounts at one place, the last is on top.
        let around = self.0.iter().filter(|mount| path.starts_with(&mount.at));
        let Some(own) = around.max_by_key(|mount| mount.at.as_os_str().len()) else { return Vec::new() };
        let Ok(below) = path.strip_prefix(&own.at) else { return Vec::new() };
        let inside = own.root.join(below);
        let same = self.0.iter().filter(|mount| mount.device == own.device && mount.at != own.at);
        let other = |mount: &Mount| {
            let below = inside.strip_prefix(&mount.root).ok()?;
            Some(if below.as_os_str().is_empty() { mount.at.clone() } else { mount.at.join(below) })
        };
        same.filter_map(other).filter(|other| other != path).collect()
    }
}

/// Replaces the escapes `\040` and the like.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[3..]);
            }
            None => {
                bytes.push(b'\\');
                bytes.extend(part.as_bytes());
            }
        }
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_paths_go_through_mounts_of_the_same_device() {
        let mounts = Mounts::parse(
            "20 1 8:1 / / rw - ext4 /dev/a rw\n21 20 8:1 /home/u/w /mnt/my\\040copy rw - ext4 /dev/a rw\n\
             22 20 8:2 / /home/u/w/data rw - ext4 /dev/b rw\n23 20 8:1 /home/u/w/sub/.env /mnt/one rw - ext4 /dev/a rw\n",
        );
        assert_eq!(mounts.others(Path::new("/home/u/w/.env")), [PathBuf::from("/mnt/my copy/.env")]);
        assert_eq!(mounts.others(Path::new("/mnt/my copy/.env")), [PathBuf::from("/home/u/w/.env")]);
        let both = [PathBuf::from("/mnt/my copy/sub/.env"), PathBuf::from("/mnt/one")];
        assert_eq!(mounts.others(Path::new("/home/u/w/sub/.env")), both);
        assert!(mounts.others(Path::new("/home/u/w/data/.env")).is_empty());
    }
}
