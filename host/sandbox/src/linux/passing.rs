//! Passing an open file from the helper to its parent, over a socket that only the two have.

#![allow(unsafe_code, reason = "no safe interface takes a descriptor over from another process")]

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Leaves a socket open in the program that a command starts, under the number that is returned.
pub(crate) fn leave_open(command: &mut Command, socket: UnixStream) -> RawFd {
    let number = socket.as_raw_fd();
    let keep = move || Ok(fcntl(&socket, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)?);
    // SAFETY: the closure only calls fcntl, allocates nothing and takes no lock.
    unsafe { command.pre_exec(keep) };
    number
}

/// Takes the socket that [`leave_open`] left. Must be called once.
pub(super) fn inherited(number: RawFd) -> UnixStream {
    // SAFETY: the parent names a descriptor that nothing else in this process uses.
    unsafe { UnixStream::from_raw_fd(number) }
}

/// Sends a copy of an open file.
pub(super) fn send(socket: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
    let files = [file.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&files)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(b"!")], &control, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// Receives one open file. Blocks until it is there, the other end is closed, or the socket's time is over.
pub(crate) fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!(RawFd);
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(files) = control
            && let [file] = files[..]
        {
            // SAFETY: the descriptor has just been received, and has no further owner.
            return Ok(unsafe { OwnedFd::from_raw_fd(file) });
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::os::fd::AsFd as _;

    #[test]
    fn file_arrives_as_it_was_sent() {
        let (one, other) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        send(&one, listener.as_fd()).unwrap();
        let received = TcpListener::from(receive(&other).unwrap());
        assert_eq!(received.local_addr().unwrap(), listener.local_addr().unwrap());
    }

    #[test]
    fn end_and_plain_bytes_are_no_files() {
        let (mut one, other) = UnixStream::pair().unwrap();
        one.write_all(b"!").unwrap();
        assert!(receive(&other).is_err());
        drop(one);
        assert!(receive(&other).is_err());
    }
}
