//! Ctrl-C, SIGTERM and a closed terminal as a flag that the work looks at.

use crate::clock;
use crate::priority::ThreadId;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Says whether somebody asked for the end, and by which signal. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct StopFlag {
    signal: Arc<AtomicI32>,
    watcher: Arc<AtomicI32>,
}

impl StopFlag {
    /// True once a stop was asked for.
    #[must_use]
    #[inline]
    pub fn is_set(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Asks for the end; the first caller's signal number stays.
    pub fn set(&self, signal: i32) {
        let _ = self.signal.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The thread that [`watch`] waits for signals with; none when nobody does.
    #[must_use]
    pub fn watcher(&self) -> Option<ThreadId> {
        ThreadId::of(self.watcher.load(Ordering::Relaxed))
    }

    /// A flag that the calling thread sets when it hears of a request, instead of the one that waits for signals.
    #[must_use]
    pub fn heard_here() -> Self {
        let flag = Self::default();
        flag.watcher.store(ThreadId::current().number(), Ordering::Relaxed);
        flag
    }

    /// The name of the signal that asked, if any.
    #[must_use]
    pub fn signal_name(&self) -> Option<&'static str> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            libc::SIGINT => Some("SIGINT"),
            libc::SIGTERM => Some("SIGTERM"),
            libc::SIGHUP => Some("SIGHUP"),
            libc::SIGQUIT => Some("SIGQUIT"),
            libc::SIGUSR1 => Some("SIGUSR1"),
            libc::SIGUSR2 => Some("SIGUSR2"),
            libc::SIGXCPU => Some("SIGXCPU"),
            _ => Some("a request"),
        }
    }
}

/// SIGXFSZ was ignored before [`watch`] did so: what a program that is started would have found. Nobody can be asked later.
static FILE_LIMIT_IGNORED: AtomicBool = AtomicBool::new(false);

/// True when whoever started this process has it ignore the signal of the limit of file sizes.
pub(crate) fn is_file_limit_ignored() -> bool {
    FILE_LIMIT_IGNORED.load(Ordering::Relaxed)
}

const WATCHED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];
/// What else would end the process by itself, and with it what it has set: of batch systems above all, and of who asks `dd` how far it is.
const FURTHER: [libc::c_int; 9] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGXCPU,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];
const OF_TERMINAL: [libc::c_int; 2] = [libc::SIGTSTP, libc::SIGWINCH];

/// A session that ends sends more than one signal at once: a shell and the kernel both send SIGHUP, `timeout` ends the process
/// and then its group. Within this time after the first they are one request.
const ONE_REQUEST_NS: u64 = 300_000_000;

/// How often somebody has asked for the end.
#[derive(Debug, Default)]
struct Requests {
    first_ns: Option<u64>,
    count: u32,
}

impl Requests {
    /// A signal came at that time. The number of the request that it is; none when it belongs to one that was made.
    fn heard(&mut self, signal: i32, now_ns: u64) -> Option<u32> {
        let is_new = match self.first_ns {
            None => true,
            // A terminal that goes away asks for nothing that was not asked for.
            Some(first_ns) => signal != libc::SIGHUP && now_ns - first_ns >= ONE_REQUEST_NS,
        };
        self.first_ns.get_or_insert(now_ns);
        self.count += u32::from(is_new);
        is_new.then_some(self.count)
    }
}

/// What the thread that waits for signals tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Somebody asked for the end; so often by now.
    Stop(u32),
    /// The process is stopped (Ctrl-Z) as soon as this has been heard.
    Pause,
    /// It goes on.
    Resume,
    /// The terminal has another size.
    Resized,
}

/// Blocks INT, QUIT, TERM, HUP and all others that end a process in this thread and all that it will start, and turns them into
/// `flag`; `heard` is told of each request, with how many were made by now. With `has_terminal` it is also told before the process is
/// stopped from the terminal, and after that, and of new sizes.
///
/// Must be called before any other thread exists. SIGHUP stays ignored when it was (nohup). SIGPIPE is ignored, so that
/// a closed pipe is an error of the write and not the end of the process, and so is SIGXFSZ, for the limit of file sizes.
///
/// # Errors
/// When the system has no thread to give.
pub fn watch(
    flag: StopFlag,
    has_terminal: bool,
    heard: impl Fn(Heard) + Send + 'static,
) -> io::Result<()> {
    // SAFETY: sigset_t is plain data that sigemptyset initialises before any use.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to our own set.
    unsafe { libc::sigemptyset(&raw mut set) };
    let of_terminal = OF_TERMINAL.into_iter().filter(|_| has_terminal);
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    for signal in WATCHED.into_iter().chain(FURTHER).chain(real_time).chain(of_terminal) {
        let may_be_ignored = ![libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&signal);
        if may_be_ignored && is_ignored(signal) {
            continue;
        }
        // SAFETY: as above; the signal numbers are valid.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    FILE_LIMIT_IGNORED.store(is_ignored(libc::SIGXFSZ), Ordering::Relaxed);
    // SAFETY: the set is initialised; no handler is replaced. SIG_IGN is a valid disposition.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        flag.watcher.store(ThreadId::current().number(), Ordering::Relaxed);
        let mut requests = Requests::default();
        loop {
            let mut signal = 0;
            // SAFETY: both pointers are to valid objects of this thread.
            if unsafe { libc::sigwait(&raw const set, &raw mut signal) } != 0 {
                continue;
            }
            match signal {
                libc::SIGWINCH => heard(Heard::Resized),
                libc::SIGTSTP => {
                    heard(Heard::Pause);
                    stop_here();
                    heard(Heard::Resume);
                }
                _ => {
                    flag.set(signal);
                    if let Some(count) = requests.heard(signal, clock::monotonic_ns()) {
                        heard(Heard::Stop(count));
                    }
                }
            }
        }
    })?;
    Ok(())
}

/// What Ctrl-C does, asked for by a key in a view. It never ends anything at once: not when the end was asked for already.
pub fn interrupt(flag: &StopFlag) {
    if !flag.is_set() {
        let process = rustix::process::getpid();
        let _ = rustix::process::kill_process(process, rustix::process::Signal::INT);
    }
}

/// Lets the signal of Ctrl-Z do what it does by itself: it stops the process, but not one without a shell that could let it
/// go on.
fn stop_here() {
    // SAFETY: sigset_t is plain data that sigemptyset initialises before any use.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointers are to our own set; the disposition is the default one, so that no handler runs. The signal is
    // pending for this thread when it is unblocked, and stops the process there.
    unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTSTP);
        libc::raise(libc::SIGTSTP);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: sigaction is plain data; with a null new action the call only reads.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to our own structure.
    let told = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    told == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_names_the_reason() {
        let flag = StopFlag::default();
        assert!(!flag.is_set() && flag.signal_name().is_none());
        flag.clone().set(libc::SIGTERM);
        flag.set(libc::SIGINT);
        assert!(flag.is_set());
        assert_eq!(flag.signal_name(), Some("SIGTERM"));
    }

    #[test]
    fn a_session_that_ends_asks_once() {
        const MS: u64 = 1_000_000;
        let (int, term, hup) = (libc::SIGINT, libc::SIGTERM, libc::SIGHUP);
        for (signals, asked) in [
            // A closed terminal: the shell, then the kernel.
            (vec![(hup, 0), (hup, 20)], 1),
            // A manager of sessions; `timeout`.
            (vec![(term, 0), (hup, 0)], 1),
            (vec![(term, 0), (term, 1)], 1),
            // Nobody sits there any more who could mean it.
            (vec![(int, 0), (hup, 60_000)], 1),
            // Somebody does not want to wait.
            (vec![(int, 0), (int, 400)], 2),
            (vec![(hup, 0), (hup, 500), (term, 1_000)], 2),
            (vec![(int, 0), (int, 100), (int, 299), (int, 300), (int, 301)], 3),
        ] {
            let mut requests = Requests::default();
            let counts = signals.iter().filter_map(|&(s, ms)| requests.heard(s, 7 * MS + ms * MS));
            assert_eq!(counts.collect::<Vec<_>>(), (1..=asked).collect::<Vec<_>>(), "{signals:?}");
        }
    }
}
