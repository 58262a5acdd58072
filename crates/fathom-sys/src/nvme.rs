//! Questions to NVMe controllers by admin commands; NVM Express base specification 2.0.
//!
//! Only what is listed in [`Question`] can be sent, and none of it changes anything.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// An admin command that only asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// What the controller is and can do.
    IdentifyController,
    /// How a namespace is formatted.
    IdentifyNamespace(u32),
    /// SMART and health information (log page 02h).
    Health,
    /// Results of self-tests (log page 06h).
    SelfTests,
    /// Is the volatile write cache on?
    WriteCache,
    /// Do power states change by themselves?
    PowerTransitions,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Data; empty where the question has none.
    pub data: Vec<u8>,
    /// The first word of the completion: the value of a feature.
    pub result: u32,
}

const IDENTIFY: u8 = 0x06;
const GET_LOG_PAGE: u8 = 0x02;
const GET_FEATURES: u8 = 0x0a;
const ALL_NAMESPACES: u32 = 0xffff_ffff;

/// After how long the kernel gives a command up; then it resets the controller, which disturbs everybody.
const TIMEOUT_MS: u32 = 10_000;

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const NVME_IOCTL_ADMIN_CMD: u32 = 0xc048_4e41;

/// `struct nvme_passthru_cmd` of `<linux/nvme_ioctl.h>`.
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    word2: u32,
    word3: u32,
    metadata: u64,
    data: u64,
    metadata_len: u32,
    data_len: u32,
    word10: u32,
    word11: u32,
    word12: u32,
    word13: u32,
    word14: u32,
    word15: u32,
    timeout_ms: u32,
    result: u32,
}

/// Asks through an open namespace or controller.
///
/// # Errors
/// EACCES or EPERM without the right to ask; ENOTTY for other devices; `Other` with the status when the controller
/// refuses the question.
pub fn ask(device: &File, question: Question) -> io::Result<Answer> {
    let (mut command, data_bytes) = question.command();
    let mut data = vec![0u8; data_bytes];
    command.data = data.as_mut_ptr() as u64;
    command.data_len = data_bytes as u32;
    command.timeout_ms = TIMEOUT_MS;
    // SAFETY: the buffer is as long as the command says and outlives the call, which returns when the command has
    // ended; the kernel writes inside it and into the command only.
    let status = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            NVME_IOCTL_ADMIN_CMD as libc::Ioctl,
            std::ptr::from_mut(&mut command),
        )
    };
    match status {
        0 => Ok(Answer { data, result: command.result }),
        1.. => Err(io::Error::other(format!("NVMe status {status:#06x}"))),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Question {
    /// The command and the size of its answer.
    fn command(self) -> (Command, usize) {
        let base = Command::default;
        let identify =
            |namespace, kind| Command { opcode: IDENTIFY, namespace, word10: kind, ..base() };
        let feature = |id| Command { opcode: GET_FEATURES, word10: id, ..base() };
        let log = |page: u32, bytes: usize| {
            let words = (bytes / 4 - 1) as u32;
            let word10 = words << 16 | page;
            (Command { opcode: GET_LOG_PAGE, namespace: ALL_NAMESPACES, word10, ..base() }, bytes)
        };
        match self {
            Self::IdentifyNamespace(number) => (identify(number, 0), 4096),
            Self::IdentifyController => (identify(0, 1), 4096),
            Self::Health => log(0x02, 512),
            Self::SelfTests => log(0x06, 564),
            Self::WriteCache => (feature(0x06), 0),
            // The answer holds the table of transitions too.
            Self::PowerTransitions => (feature(0x0c), 256),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_size_that_the_kernel_expects() {
        assert_eq!(std::mem::size_of::<Command>(), 72);
        let (health, bytes) = Question::Health.command();
        assert_eq!((health.opcode, health.word10, bytes), (2, 127 << 16 | 2, 512));
        let (namespace, bytes) = Question::IdentifyNamespace(7).command();
        assert_eq!((namespace.namespace, namespace.word10, bytes), (7, 0, 4096));
    }

    #[test]
    fn a_plain_file_is_no_controller() {
        let file = File::open("/proc/self/exe").unwrap();
        let error = ask(&file, Question::Health).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
