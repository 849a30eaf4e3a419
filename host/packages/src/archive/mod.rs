//! Archives of packages: `.tar.gz`, `.tar` and `.zip`; and of releases of Pinion itself, `.tar.xz`.
//!
//! Only regular files and directories are accepted, under plain paths, and the bounds of a package hold while an archive is
//! unpacked, in memory. So a small archive cannot become a large package, and no file is written before all of it is known.

mod tar;
mod zip;

use crate::files::{FileLimit, PackageFiles};
use crate::package::PackageError;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lzma_rust2::XzReader;
use std::io::{self, Read, Write as _};

/// Returns the files of an archive, without the one directory that all of them are in. Its first bytes decide
/// on its kind.
///
/// # Errors
/// It is damaged, or a file in it breaks the rules of packages.
pub fn unpack(bytes: &[u8]) -> Result<PackageFiles, PackageError> {
    let files = match bytes {
        [0x1f, 0x8b, ..] => tar::unpack(&inflate(MultiGzDecoder::new(bytes), FileLimit::PACKAGE.bytes + (8 << 20))?),
        [b'P', b'K', 3, 4, ..] => zip::unpack(bytes),
        _ if bytes.get(257..262) == Some(b"ustar") => tar::unpack(bytes),
        _ => Err(PackageError::Archive("it is neither .tar.gz nor .zip")),
    }?;
    Ok(files.without_common_directory())
}

/// KiB that the decoder of xz may use: the window of the highest level, 64 MiB, and its tables.
const XZ_MEMORY: u32 = 66 << 10;

/// Returns the files of a release of Pinion itself, a `.tar.xz`, without the one directory that all of them are in.
///
/// # Errors
/// It is damaged, or a file in it breaks the rules of packages.
pub fn unpack_release(bytes: &[u8]) -> Result<PackageFiles, PackageError> {
    let decoder = XzReader::new_mem_limit(bytes, false, XZ_MEMORY);
    let files = tar::unpack(&inflate(decoder, FileLimit::PACKAGE.bytes + (8 << 20))?)?;
    Ok(files.without_common_directory())
}

/// Returns the archive of a package. The same files make the same bytes.
///
/// # Errors
/// A path is too long for an archive.
pub fn pack(files: &PackageFiles) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for (path, bytes) in files.iter() {
        encoder.write_all(&tar::header(path, bytes.len())?)?;
        encoder.write_all(bytes)?;
        encoder.write_all(&vec![0; bytes.len().next_multiple_of(512) - bytes.len()])?;
    }
    encoder.write_all(&[0; 1024])?;
    encoder.finish()
}

/// Returns whether bytes begin like an archive.
pub fn is_archive(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1f, 0x8b, ..] | [b'P', b'K', 3, 4, ..]) || bytes.get(257..262) == Some(b"ustar")
}

/// Reads compressed bytes up to a bound.
fn inflate(decoder: impl Read, limit: u64) -> Result<Vec<u8>, PackageError> {
    let mut bytes = Vec::new();
    let read = decoder.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|_| PackageError::Archive("its compressed data is damaged or cut off"))?;
    if bytes.len() as u64 > limit { Err(PackageError::TooLarge) } else { Ok(bytes) }
}
