//! The header of GGUF files: metadata, and the places of tensors.
//!
//! Files come from the network. Each length in a header is compared with the rest of the file before memory is taken for
//! it, and headers are limited in size.

use crate::error::GgufError;
use std::collections::BTreeMap;
use std::io::{BufReader, Read};

/// Maximum bytes of a header. The largest vocabularies take some 20 MB.
const MAX_HEADER: u64 = 256 << 20;
/// Maximum entries of the metadata, of tensors, and of an array.
const MAX_ENTRIES: u64 = 1 << 20;
/// Maximum dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 4;

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataValue {
    /// An integer of any size.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// An array of texts.
    Texts(Vec<String>),
    /// An array of integers or truth values.
    Integers(Vec<i64>),
    /// An array of floating-point numbers.
    Floats(Vec<f64>),
}

/// The format of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the formats' own")]
pub enum TensorFormat {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

impl TensorFormat {
    fn from_id(id: u32) -> Result<Self, GgufError> {
        Ok(match id {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            10 => Self::Q2K,
            11 => Self::Q3K,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            other => return Err(GgufError::TensorFormat(other)),
        })
    }

    /// Returns the numbers of a block and its bytes.
    pub fn block(self) -> (u64, u64) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
        }
    }
}

/// The place of a tensor in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorLocation {
    /// Rows, and numbers in a row. A vector has one row.
    pub shape: (usize, usize),
    /// The format of the numbers.
    pub format: TensorFormat,
    /// The first byte, counted from the start of the file.
    pub start: u64,
    /// The length in bytes.
    pub bytes: u64,
}

/// The checked header of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct GgufHeader {
    values: BTreeMap<String, MetadataValue>,
    tensors: BTreeMap<String, TensorLocation>,
}

impl GgufHeader {
    /// Reads the header of a file with `length` bytes.
    ///
    /// # Errors
    /// The file is not GGUF, is damaged or truncated, or has tensors in unknown formats.
    pub fn read(file: impl Read, length: u64) -> Result<Self, GgufError> {
        let mut source = HeaderSource { reader: BufReader::new(file), position: 0, length };
        if source.array::<4>().map_err(|_| GgufError::NotGguf)? != *b"GGUF" {
            return Err(GgufError::NotGguf);
        }
        let version = source.u32()?;
        if !(2..=3).contains(&version) {
            return Err(GgufError::Version(version));
        }
        let (tensor_count, value_count) = (source.count(24)?, source.count(13)?);
        let mut values = BTreeMap::new();
        for _ in 0..value_count {
            let name = source.text()?;
            let kind = source.u32()?;
            values.insert(name, source.value(kind)?);
        }
        let mut listed = Vec::new();
        for _ in 0..tensor_count {
            let name = source.text()?;
            listed.push((name, source.tensor()?));
        }
        let alignment = match values.get("general.alignment") {
            None => 32,
            Some(MetadataValue::Integer(n @ 1..=65536)) if (*n as u64).is_power_of_two() => *n as u64,
            Some(_) => return Err(GgufError::Damaged("the alignment is not a power of two".to_owned())),
        };
        let data = source.position.next_multiple_of(alignment);
        let mut tensors = BTreeMap::new();
        for (name, mut tensor) in listed {
            let start = data.checked_add(tensor.start);
            let end = start.and_then(|start| start.checked_add(tensor.bytes));
            let (Some(start), Some(end)) = (start, end) else {
                return Err(GgufError::Damaged(format!("the place of the tensor `{}`", shortened(&name))));
            };
            if end > length {
                return Err(GgufError::Truncated(end - length));
            }
            tensor.start = start;
            tensors.insert(name, tensor);
        }
        Ok(Self { values, tensors })
    }

    /// Returns a value of the metadata.
    pub fn value(&self, name: &str) -> Option<&MetadataValue> {
        self.values.get(name)
    }

    /// Returns a text of the metadata.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.values.get(name) {
            Some(MetadataValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer of the metadata that is not negative.
    pub fn integer(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(MetadataValue::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns a number of the metadata.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.values.get(name) {
            Some(MetadataValue::Float(number)) => Some(*number),
            Some(MetadataValue::Integer(number)) => Some(*number as f64),
            _ => None,
        }
    }

    /// Returns a truth value of the metadata.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.values.get(name) {
            Some(MetadataValue::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Returns an array of texts of the metadata.
    pub fn texts(&self, name: &str) -> Option<&[String]> {
        match self.values.get(name) {
            Some(MetadataValue::Texts(texts)) => Some(texts),
            _ => None,
        }
    }

    /// Returns the place of a tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorLocation> {
        self.tensors.get(name)
    }

    /// Returns the places of all tensors.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorLocation)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Returns the architecture, which also begins the names of its settings.
    pub fn architecture(&self) -> &str {
        self.text("general.architecture").unwrap_or_default()
    }

    /// Returns the tokens of the context window.
    pub fn context_length(&self) -> Option<u64> {
        self.integer(&format!("{}.context_length", self.architecture()))
    }
}

/// Returns a name that an error message may contain.
fn shortened(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// Reads the header and counts the bytes.
struct HeaderSource<R> {
    reader: BufReader<R>,
    position: u64,
    length: u64,
}

impl<R: Read> HeaderSource<R> {
    /// Reserves bytes of the file, before memory is taken for them.
    fn reserve_bytes(&mut self, bytes: u64) -> Result<(), GgufError> {
        let end = self.position.checked_add(bytes);
        let end = end.ok_or_else(|| GgufError::Damaged("a length in the header is absurd".to_owned()))?;
        if end > self.length {
            return Err(GgufError::Truncated(end - self.length));
        }
        if end > MAX_HEADER {
            return Err(GgufError::Damaged(format!("the header has more than {} MB", MAX_HEADER >> 20)));
        }
        self.position = end;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        self.reserve_bytes(N as u64)?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads the number of entries that have at least `least` bytes each.
    fn count(&mut self, least: u64) -> Result<u64, GgufError> {
        let count = self.u64()?;
        let fits = count.checked_mul(least).is_some_and(|bytes| bytes <= self.length - self.position);
        match fits && count <= MAX_ENTRIES {
            true => Ok(count),
            false => Err(GgufError::Damaged(format!("{count} entries do not fit into the file"))),
        }
    }

    fn text(&mut self) -> Result<String, GgufError> {
        let length = self.u64()?;
        self.reserve_bytes(length)?;
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| GgufError::Damaged("a text is not UTF-8".to_owned()))
    }

    fn value(&mut self, kind: u32) -> Result<MetadataValue, GgufError> {
        match kind {
            8 => self.text().map(MetadataValue::Text),
            9 => self.values(),
            7 => Ok(MetadataValue::Bool(self.array::<1>()? != [0])),
            6 | 12 => self.float(kind).map(MetadataValue::Float),
            _ => self.integer(kind).map(MetadataValue::Integer),
        }
    }

    fn values(&mut self) -> Result<MetadataValue, GgufError> {
        let kind = self.u32()?;
        let size = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            _ => 8,
        };
        let count = self.count(size)?;
        match kind {
            8 => (0..count).map(|_| self.text()).collect::<Result<_, _>>().map(MetadataValue::Texts),
            6 | 12 => (0..count).map(|_| self.float(kind)).collect::<Result<_, _>>().map(MetadataValue::Floats),
            _ => (0..count).map(|_| self.integer(kind)).collect::<Result<_, _>>().map(MetadataValue::Integers),
        }
    }

    fn float(&mut self, kind: u32) -> Result<f64, GgufError> {
        match kind {
            6 => self.array().map(|bytes| f64::from(f32::from_le_bytes(bytes))),
            _ => self.array().map(f64::from_le_bytes),
        }
    }

    fn integer(&mut self, kind: u32) -> Result<i64, GgufError> {
        match kind {
            0 | 7 => self.array::<1>().map(|[byte]| i64::from(byte)),
            1 => self.array().map(|bytes| i64::from(i8::from_le_bytes(bytes))),
            2 => self.array().map(|bytes| i64::from(u16::from_le_bytes(bytes))),
            3 => self.array().map(|bytes| i64::from(i16::from_le_bytes(bytes))),
            4 => self.u32().map(i64::from),
            5 => self.array().map(|bytes| i64::from(i32::from_le_bytes(bytes))),
            10 => self.u64().map(|number| i64::try_from(number).unwrap_or(i64::MAX)),
            11 => self.array().map(i64::from_le_bytes),
            other => Err(GgufError::Damaged(format!("the metadata has the unknown type {other}"))),
        }
    }

    /// Reads the place of a tensor, which is still relative to the tensors' data.
    fn tensor(&mut self) -> Result<TensorLocation, GgufError> {
        let damaged = || GgufError::Damaged("the shape of a tensor".to_owned());
        let dimensions = self.u32()?;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(damaged());
        }
        let columns = self.u64()?;
        let mut rows = 1_u64;
        for _ in 1..dimensions {
            rows = rows.checked_mul(self.u64()?).ok_or_else(damaged)?;
        }
        let format = TensorFormat::from_id(self.u32()?)?;
        let start = self.u64()?;
        let (numbers, bytes) = format.block();
        if columns == 0 || rows == 0 || !columns.is_multiple_of(numbers) {
            return Err(damaged());
        }
        let bytes = (columns / numbers).checked_mul(bytes).and_then(|row| row.checked_mul(rows)).ok_or_else(damaged)?;
        if bytes > self.length {
            return Err(GgufError::Truncated(bytes - self.length));
        }
        Ok(TensorLocation { shape: (rows as usize, columns as usize), format, start, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_files::{ModelFile, tiny_model};
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<GgufHeader, GgufError> {
        GgufHeader::read(bytes, bytes.len() as u64)
    }

    #[test]
    fn metadata_and_tensors_are_read() {
        let header = read(&tiny_model()).unwrap();
        assert_eq!(header.architecture(), "llama");
        assert_eq!(header.context_length(), Some(64));
        assert_eq!(header.texts("tokenizer.ggml.merges").unwrap()[0], "r e");
        let tensor = header.tensor("token_embd.weight").unwrap();
        assert_eq!((tensor.shape.1, tensor.format), (32, TensorFormat::F32));
        assert_eq!(tensor.start % 32, 0);
    }

    #[test]
    fn damage_has_a_type() {
        let whole = tiny_model();
        assert!(matches!(read(b"PK\x03\x04 and more"), Err(GgufError::NotGguf)));
        assert!(matches!(read(b"GG"), Err(GgufError::NotGguf)));
        assert!(matches!(read(&whole[..whole.len() - 1]), Err(GgufError::Truncated(1))));
        assert!(matches!(read(&whole[..100]), Err(GgufError::Truncated(_) | GgufError::Damaged(_))));
        let other_version = [b"GGUF", &9_u32.to_le_bytes()[..], &[0; 16]].concat();
        assert!(matches!(read(&other_version), Err(GgufError::Version(9))));
        let unknown = ModelFile::default().tensor_header("t", &[32], 19, 0).bytes();
        assert!(matches!(read(&unknown), Err(GgufError::TensorFormat(19))));
    }

    #[test]
    fn absurd_lengths_take_no_memory() {
        let huge = u64::MAX.to_le_bytes();
        for length in [huge, (1_u64 << 40).to_le_bytes()] {
            let header =
                [b"GGUF", &3_u32.to_le_bytes()[..], &0_u64.to_le_bytes(), &1_u64.to_le_bytes(), &length].concat();
            let padded = [header.as_slice(), &[0; 64]].concat();
            assert!(matches!(read(&padded), Err(GgufError::Truncated(_) | GgufError::Damaged(_))));
            let counts = [b"GGUF", &3_u32.to_le_bytes()[..], &length, &length, &[0; 64]].concat();
            assert!(matches!(read(&counts), Err(GgufError::Damaged(_))));
        }
        let tensor = ModelFile::default().tensor_header("t", &[1 << 40, 1 << 40], 0, 0).bytes();
        assert!(read(&tensor).is_err());
        let place = ModelFile::default().tensor_header("t", &[1], 0, u64::MAX - 8).bytes();
        assert!(matches!(read(&place), Err(GgufError::Damaged(_) | GgufError::Truncated(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn mutated_headers_never_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
            cut in any::<prop::sample::Index>(),
            is_cut in any::<bool>(),
        ) {
            let mut bytes = tiny_model();
            let header = bytes.len() - 128;
            for (place, byte) in changes {
                let place = place.index(header);
                bytes[place] = byte;
            }
            if is_cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            if let Ok(header) = read(&bytes) {
                for (_, tensor) in header.tensors() {
                    prop_assert!(tensor.start + tensor.bytes <= bytes.len() as u64);
                }
            }
        }
    }
}
