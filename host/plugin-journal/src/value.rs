//! The encoding of arguments and results.
//!
//! A value is encoded by position, as postcard does it: no names and no types, which a component's own imports have. So
//! `replay/value.rs` decodes each value by its type. A resource is encoded as the number that the host gave it.

use std::sync::Arc;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::types as files;
use wasmtime_wasi::p2::bindings::io::streams;

/// A value that a journal can contain.
pub trait EncodeValue {
    /// Appends the value.
    fn encode(&self, out: &mut Vec<u8>);

    /// Appends the elements of a list.
    fn encode_elements(elements: &[Self], out: &mut Vec<u8>)
    where
        Self: Sized,
    {
        elements.iter().for_each(|element| element.encode(out));
    }
}

/// Values that were encoded by their types.
pub struct EncodedValues(pub Vec<u8>);

impl EncodeValue for EncodedValues {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// Appends a number, seven bits a byte.
#[inline]
pub fn encode_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

impl EncodeValue for u8 {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    /// The contents of files are lists of bytes: one copy in place of one step for each byte.
    fn encode_elements(elements: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(elements);
    }
}

impl EncodeValue for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl EncodeValue for $number {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                encode_number((*self).into(), out);
            }
        }
    )+};
}
numbers!(u16, u32, u64);

/// The sign is the lowest bit.
impl EncodeValue for i64 {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_number(((*self << 1) ^ (*self >> 63)).cast_unsigned(), out);
    }
}

impl EncodeValue for str {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        encode_number(self.len() as u64, out);
        out.extend_from_slice(self.as_bytes());
    }
}

impl EncodeValue for String {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}

impl<T: EncodeValue> EncodeValue for [T] {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_number(self.len() as u64, out);
        out.reserve(self.len());
        T::encode_elements(self, out);
    }
}

impl<T: EncodeValue> EncodeValue for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl<T: EncodeValue + ?Sized> EncodeValue for &T {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }
}

impl<T: EncodeValue + ?Sized> EncodeValue for Arc<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }
}

impl<T: EncodeValue> EncodeValue for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        self.iter().for_each(|value| value.encode(out));
    }
}

impl<T: EncodeValue, E: EncodeValue> EncodeValue for Result<T, E> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_err()));
        match self {
            Ok(value) => value.encode(out),
            Err(error) => error.encode(out),
        }
    }
}

impl<T: 'static> EncodeValue for Resource<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.rep().encode(out);
    }
}

macro_rules! tuples {
    ($(($($name:ident),*);)+) => {$(
        impl<$($name: EncodeValue),*> EncodeValue for ($($name,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($name,)*) = self;
                $($name.encode(out);)*
            }
        }
    )+};
}
tuples! {
    ();
    (A);
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
}

macro_rules! flags {
    ($($flags:ty),+) => {$(
        impl EncodeValue for $flags {
            fn encode(&self, out: &mut Vec<u8>) {
                self.as_array()[0].encode(out);
            }
        }
    )+};
}
flags!(files::DescriptorFlags, files::OpenFlags, files::PathFlags);

macro_rules! enums {
    ($($value:ty),+) => {$(
        impl EncodeValue for $value {
            fn encode(&self, out: &mut Vec<u8>) {
                u64::from(*self as u8).encode(out);
            }
        }
    )+};
}
enums!(files::Advice, files::DescriptorType, files::ErrorCode);

macro_rules! records {
    ($($value:ty { $($field:ident),+ })+) => {$(
        impl EncodeValue for $value {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)+
            }
        }
    )+};
}
records! {
    Datetime { seconds, nanoseconds }
    files::DescriptorStat {
        type_, link_count, size, data_access_timestamp, data_modification_timestamp, status_change_timestamp
    }
    files::DirectoryEntry { type_, name }
    files::MetadataHashValue { lower, upper }
}

impl EncodeValue for files::NewTimestamp {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::NoChange => out.push(0),
            Self::Now => out.push(1),
            Self::Timestamp(time) => {
                out.push(2);
                time.encode(out);
            }
        }
    }
}

impl EncodeValue for streams::StreamError {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::LastOperationFailed(error) => {
                out.push(0);
                error.encode(out);
            }
            Self::Closed => out.push(1),
        }
    }
}
