//! Tar archives: ustar, with the long names of GNU and pax.

use crate::files::PackageFiles;
use crate::package::PackageError;
use std::io;

const BLOCK: usize = 512;

/// Returns the files of an archive.
pub(super) fn unpack(bytes: &[u8]) -> Result<PackageFiles, PackageError> {
    let mut files = PackageFiles::default();
    let mut rest = bytes;
    let mut long_name: Option<String> = None;
    loop {
        let header = rest.get(..BLOCK).ok_or(PackageError::Archive("it is cut off"))?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(files);
        }
        check_sum(header)?;
        let size = number(&header[124..136])?;
        let size = usize::try_from(size).map_err(|_| PackageError::TooLarge)?;
        let padded = size.checked_next_multiple_of(BLOCK).ok_or(PackageError::TooLarge)?;
        let after = rest.get(BLOCK..).unwrap_or_default();
        let (data, next) = (after.get(..size), after.get(padded..));
        let (Some(data), Some(next)) = (data, next) else { return Err(PackageError::Archive("it is cut off")) };
        rest = next;
        match header[156] {
            b'0' | 0 => files.insert(&path(header, long_name.take())?, data.to_owned())?,
            b'5' => drop(long_name.take()),
            b'L' => long_name = Some(text(data)?),
            b'x' => long_name = pax_path(data)?.or(long_name),
            // A comment of the whole archive, as `git archive` writes it.
            b'g' => {}
            _ => return Err(PackageError::NotAFile { path: path(header, long_name)? }),
        }
    }
}

/// Returns the header of a file, without an owner and a time.
pub(super) fn header(path: &str, size: usize) -> io::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    // A path of more than 100 bytes is split at a slash.
    let start = path.len().saturating_sub(100);
    let split = path.get(start..).and_then(|rest| rest.find('/')).map(|at| start + at);
    let (prefix, name) = match split.filter(|_| start > 0) {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    };
    if name.len() > 100 || prefix.len() > 155 {
        return Err(io::Error::other(format!("the path `{path}` is too long for an archive")));
    }
    let mut set = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    set(0, name.as_bytes());
    set(100, b"0000644\0");
    set(108, b"0000000\0");
    set(116, b"0000000\0");
    set(124, format!("{size:011o}\0").as_bytes());
    set(136, b"00000000000\0");
    set(148, b"        ");
    set(156, b"0");
    set(257, b"ustar\x0000");
    set(345, prefix.as_bytes());
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// Returns the path of an entry, without a leading `./`.
fn path(header: &[u8], long_name: Option<String>) -> Result<String, PackageError> {
    let path = match long_name {
        Some(name) => name,
        None => {
            let (name, prefix) = (text(&header[..100])?, text(&header[345..500])?);
            let is_posix = header[257..263] == *b"ustar\0";
            if prefix.is_empty() || !is_posix { name } else { format!("{prefix}/{name}") }
        }
    };
    Ok(path.strip_prefix("./").map_or(path.clone(), str::to_owned))
}

fn text(bytes: &[u8]) -> Result<String, PackageError> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..end]);
    text.map(str::to_owned).map_err(|_| PackageError::Archive("a name in it is not UTF-8"))
}

fn number(field: &[u8]) -> Result<u64, PackageError> {
    let text = text(field)?;
    let digits = text.trim_matches(' ');
    u64::from_str_radix(digits, 8).map_err(|_| PackageError::Archive("a number in it is not octal"))
}

/// Checks the sum of a header, in which the sum itself counts as spaces.
fn check_sum(header: &[u8]) -> Result<(), PackageError> {
    let sum = header.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) });
    if sum.sum::<u64>() == number(&header[148..156])? {
        Ok(())
    } else {
        Err(PackageError::Archive("a header in it is damaged"))
    }
}

/// Returns the path in a pax header: records of the form `LENGTH NAME=VALUE`.
fn pax_path(mut data: &[u8]) -> Result<Option<String>, PackageError> {
    let broken = || PackageError::Archive("an extended header in it is damaged");
    let mut path = None;
    while !data.is_empty() && data[0] != 0 {
        let space = data.iter().position(|byte| *byte == b' ').ok_or_else(broken)?;
        let length: usize =
            std::str::from_utf8(&data[..space]).ok().and_then(|text| text.parse().ok()).ok_or_else(broken)?;
        let record = data.get(space + 1..length).ok_or_else(broken)?;
        let record =
            std::str::from_utf8(record).ok().and_then(|record| record.strip_suffix('\n')).ok_or_else(broken)?;
        match record.split_once('=').ok_or_else(broken)? {
            ("path", value) => path = Some(value.to_owned()),
            ("size" | "linkpath", _) => return Err(broken()),
            _ => {}
        }
        data = &data[length..];
    }
    Ok(path)
}
