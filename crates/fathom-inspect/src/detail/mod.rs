//! What only a look at the whole machine collects of each layer.
//!
//! [`block`] and [`filesystem`] read attributes; [`touch`] says which devices nobody may touch; [`drive`] asks the
//! others, in the languages of [`ata`], [`scsi`] and [`nvme`], whose answers are parsed there as plain bytes.

pub(crate) mod ata;
pub(crate) mod backing;
pub(crate) mod block;
mod bytes;
pub(crate) mod drive;
pub(crate) mod filesystem;
pub(crate) mod free_space;
pub(crate) mod hosts;
pub(crate) mod nvme;
pub(crate) mod scsi;
pub(crate) mod space;
pub(crate) mod touch;

use fathom_model::snapshot::Unread;
use std::io;
use std::path::Path;

/// Why something could not be read, in the words of [`Unread::why`].
pub(crate) fn why(error: &io::Error) -> String {
    use io::ErrorKind::{FileTooLarge, NotConnected, NotFound, PermissionDenied, TimedOut};
    // ENXIO, ENODEV, ENOMEDIUM.
    const VANISHED: [i32; 3] = [6, 19, 123];
    match error.kind() {
        PermissionDenied => "no permission".to_owned(),
        NotFound | NotConnected => "vanished".to_owned(),
        FileTooLarge => "unreadable: far too long for what it should be".to_owned(),
        TimedOut => "unreadable: no answer in time".to_owned(),
        _ if error.raw_os_error().is_some_and(|code| VANISHED.contains(&code)) => {
            "vanished".to_owned()
        }
        _ => format!("unreadable: {error}"),
    }
}

pub(crate) fn unread(what: &Path, error: &io::Error) -> Unread {
    Unread { what: format!("/{}", what.display()), why: why(error) }
}
