//! A program without io_uring, or other calls: a seccomp filter, as containers have one, answers them with EPERM.

use crate::command::tool;
use std::process::Command;

/// Puts the filter in place (no new privileges; of the calls that are named first an error, of all others nothing), then becomes the program.
const FORBID: &str = r#"
import ctypes, os, struct, sys
def op(code, if_true, if_false, k):
    return struct.pack("HBBI", code, if_true, if_false, k)
calls = [op(0x15, 0, 1, int(call)) + op(0x06, 0, 0, 0x50001) for call in sys.argv[1].split(",")]
program = op(0x20, 0, 0, 0) + b"".join(calls) + op(0x06, 0, 0, 0x7FFF0000)
code = ctypes.create_string_buffer(program, len(program))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
chosen = Filter(len(program) // 8, ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.addressof(chosen), 0, 0) == 0
os.execv(sys.argv[2], sys.argv[2:])
"#;

/// io_uring_setup(2), the same on every machine.
const RING: u32 = 425;

/// The same command, but the program cannot set up a ring. Needs `Tool("python3")`; of the environment only what is
/// inherited comes along.
#[must_use]
pub fn without_io_uring(command: &Command) -> Command {
    without_calls(command, &[RING])
}

/// The same without these system calls, by their numbers.
#[must_use]
pub fn without_calls(command: &Command, calls: &[u32]) -> Command {
    let calls: Vec<String> = calls.iter().map(u32::to_string).collect();
    let mut forbidden = tool("python3");
    forbidden.args(["-c", FORBID, &calls.join(",")]);
    forbidden.arg(command.get_program()).args(command.get_args());
    forbidden
}
