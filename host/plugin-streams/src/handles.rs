//! The open handles of one instance's guests.
//!
//! WASI's own table knows the kind of a handle; this one knows where it lies, and that it belongs to the call that
//! opened it. Granted directories belong to the instance, because guests look them up once and keep them; the authority
//! over them is checked for each operation. Everything else ends with its call: its entry here is gone, so that no
//! operation finds it, and in WASI's table it is replaced by a closed one, so that its descriptor is released and the
//! guest's later `drop` of it does no harm.

use crate::listing::DirectoryStream;
use pinion_plugin_limits::DescriptorPermit;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, OpenMode};
use wasmtime_wasi::p2::pipe::{ClosedInputStream, ClosedOutputStream};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream};

/// Handles by their number in WASI's table.
#[derive(Default)]
pub struct Handles {
    open: HashMap<u32, Handle>,
}

/// An open handle.
#[derive(Clone)]
pub enum Handle {
    /// A granted directory, by its number.
    Granted(usize),
    /// A directory in one. Its location is unknown where it is not needed: in calls that only read, and see everything.
    Directory {
        /// The number of the granted directory.
        root: usize,
        /// Its location there.
        location: Option<PathBuf>,
        /// Its descriptor.
        permit: Arc<DescriptorPermit>,
    },
    /// A file.
    File {
        /// Its descriptor.
        permit: Arc<DescriptorPermit>,
    },
    /// A stream that reads from a file, as long as it lives.
    Input(Weak<()>),
    /// A stream that writes to a file, as long as it lives.
    Output(Weak<()>),
    /// The entries of a directory.
    Listing,
}

/// A stream's hold on its file: the descriptor's permit, which may outlive the handle, and a sign of life.
pub struct StreamHold {
    _alive: Arc<()>,
    _permit: Arc<DescriptorPermit>,
}

impl StreamHold {
    /// Holds the descriptor of a stream. The second part tells whether the stream still lives.
    pub fn new(permit: Arc<DescriptorPermit>) -> (Self, Weak<()>) {
        let alive = Arc::new(());
        let sign = Arc::downgrade(&alive);
        (Self { _alive: alive, _permit: permit }, sign)
    }
}

impl Handles {
    /// Enters a handle.
    pub fn add(&mut self, number: u32, handle: Handle) {
        self.open.insert(number, handle);
    }

    /// Returns the open handle with this number.
    pub fn get(&self, number: u32) -> Option<&Handle> {
        self.open.get(&number)
    }

    /// Forgets a handle.
    pub fn remove(&mut self, number: u32) {
        self.open.remove(&number);
    }

    /// Closes everything that the call opened.
    pub fn end_call(&mut self, table: &mut ResourceTable) {
        self.open.retain(|number, handle| {
            match handle {
                Handle::Granted(_) => return true,
                Handle::Directory { .. } | Handle::File { .. } => close_descriptor(table, *number),
                // A stream that is gone may have left its number to another resource.
                Handle::Input(alive) if alive.strong_count() > 0 => close_input(table, *number),
                Handle::Output(alive) if alive.strong_count() > 0 => close_output(table, *number),
                Handle::Input(_) | Handle::Output(_) => {}
                Handle::Listing => close_listing(table, *number),
            }
            false
        });
    }
}

/// A directory that no operation ever uses, to replace a descriptor.
pub fn blank() -> Option<&'static Dir> {
    static BLANK: OnceLock<Option<Dir>> = OnceLock::new();
    let path = if cfg!(windows) { "NUL" } else { "/dev/null" };
    let open = || Some(Dir::new(std::fs::File::open(path).ok()?, FsPerms::ReadOnly, OpenMode::READ, true));
    BLANK.get_or_init(open).as_ref()
}

fn close_descriptor(table: &mut ResourceTable, number: u32) {
    match blank() {
        Some(blank) => {
            if let Ok(slot) = table.get_mut(&Resource::<Descriptor>::new_borrow(number)) {
                *slot = Descriptor::Dir(blank.clone());
            }
        }
        None => {
            // Then a guest that drops it traps, which is better than one that uses it.
            let _ = table.delete(Resource::<Descriptor>::new_own(number));
        }
    }
}

fn close_input(table: &mut ResourceTable, number: u32) {
    if let Ok(slot) = table.get_mut(&Resource::<DynInputStream>::new_borrow(number)) {
        *slot = Box::new(ClosedInputStream);
    }
}

fn close_output(table: &mut ResourceTable, number: u32) {
    if let Ok(slot) = table.get_mut(&Resource::<DynOutputStream>::new_borrow(number)) {
        *slot = Box::new(ClosedOutputStream);
    }
}

fn close_listing(table: &mut ResourceTable, number: u32) {
    if let Ok(slot) = table.get_mut(&Resource::<DirectoryStream>::new_borrow(number)) {
        *slot = DirectoryStream::default();
    }
}
