//! The images of memories: the initial contents for every instance of a component, in a file that all of them map.

use std::io::{self, ErrorKind};
use wasmtime::component::Component;

/// Attempts to create an image. The kernel itself waits for up to 150 ms in each.
const ATTEMPTS: usize = 5;

/// Creates the images of a component, as its first instance would, but with patience. Does nothing once they exist.
///
/// wasmtime seals an image, and Linux fails with `EBUSY` while anything else holds one of its pages, such as the kernel that
/// moves pages between memories. Each attempt writes the image to other pages.
///
/// # Errors
/// The image cannot be created: there is no memory or no descriptor left, or its pages are still held.
pub fn create_images(component: &Component) -> wasmtime::Result<()> {
    while_busy(|| component.initialize_copy_on_write_image())
}

fn while_busy(mut create: impl FnMut() -> wasmtime::Result<()>) -> wasmtime::Result<()> {
    let mut result = create();
    for _ in 1..ATTEMPTS {
        match &result {
            Err(error) if is_busy(error) => result = create(),
            _ => break,
        }
    }
    result
}

fn is_busy(error: &wasmtime::Error) -> bool {
    let is_busy = |cause: &io::Error| cause.kind() == ErrorKind::ResourceBusy;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_busy))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails with an error of this kind for some attempts. Returns the result and the number of attempts.
    fn after_failures(failures: usize, kind: ErrorKind) -> (wasmtime::Result<()>, usize) {
        let mut attempts = 0;
        let result = while_busy(|| {
            attempts += 1;
            match attempts > failures {
                true => Ok(()),
                false => Err(wasmtime::Error::from(io::Error::from(kind)).context("creating an image")),
            }
        });
        (result, attempts)
    }

    #[test]
    fn image_whose_pages_are_held_for_a_while_is_created() {
        for failures in 0..ATTEMPTS {
            let (result, attempts) = after_failures(failures, ErrorKind::ResourceBusy);
            assert!(result.is_ok() && attempts == failures + 1, "{failures}: {result:?} after {attempts}");
        }
    }

    #[test]
    fn pages_that_stay_held_and_other_failures_are_errors() {
        for (kind, expected) in
            [(ErrorKind::ResourceBusy, ATTEMPTS), (ErrorKind::OutOfMemory, 1), (ErrorKind::Other, 1)]
        {
            let (result, attempts) = after_failures(usize::MAX, kind);
            assert!(
                is_busy(&result.unwrap_err()) == (kind == ErrorKind::ResourceBusy) && attempts == expected,
                "{kind:?}"
            );
        }
    }
}
