//! The live view in tmux, which breaks lines anew when it is resized and says what a screen shows: what is seen at 80x24, without
//! colours and without Unicode, over ssh, and that typing goes on as before however fathom ends.

use crate::cli::{Sandbox, p, wait_until};
use fathom_testkit::Capability::{FathomBinary, Root, Tool};
use fathom_testkit::command::{find_tool, run_tool, tool};
use fathom_testkit::{Trial, kernel_test};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, Tool("tmux")];
    let over_ssh =
        [FathomBinary, Root, Tool("tmux"), Tool("ssh"), Tool("sshd"), Tool("ssh-keygen")];
    vec![
        kernel_test("terminal_in_tmux", &needs, in_tmux),
        kernel_test("terminal_over_ssh", &over_ssh, over_a_connection),
    ]
}

/// A machine may be busy, and another measurement may hold it.
const LIMIT: Duration = Duration::from_secs(300);

/// What the view of a load without a disk says.
const WORDS: [&str; 9] = [
    "randread",
    "left",
    "throughput",
    "IOPS",
    "service time",
    "p50 ",
    "p99 ",
    "in flight",
    "q end   ? help",
];

/// In the shell of a pane: the settings of the terminal, fathom, what it ended with, the settings again; then nothing but what is
/// typed is shown.
const SHELL: &str = r#"trap : INT
stty -g > before
while :; do
  printf '\033[2J\033[H'
  sh -c 'echo $$ > pid; exec "$0" "$@"' "$@"
  code=$?
  [ $code -eq 3 ] || break
  sleep 0.2
done
stty -g > after
echo "ended with $code"
exec cat
"#;

/// A server of its own with one session of one pane, in which fathom runs; ended when dropped.
pub struct Tmux<'a> {
    sandbox: &'a Sandbox,
    /// No other server's: one that was told to end may still be there.
    socket: PathBuf,
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.command(&["kill-server"]).output().ok();
    }
}

impl<'a> Tmux<'a> {
    fn start(sandbox: &'a Sandbox, name: &str, size: (&str, &str), env: &[&str]) -> Self {
        let load = ["run", "randread", "null:", "size=64M", "rate=1000", "duration=10m"];
        Self::of(sandbox, name, size, env, &load)
    }

    /// With these words for fathom.
    pub fn of(
        sandbox: &'a Sandbox,
        name: &str,
        size: (&str, &str),
        env: &[&str],
        words: &[&str],
    ) -> Self {
        let fathom = fathom_testkit::fathom_binary().unwrap();
        let all = [&[p(&fathom), "--db", p(sandbox.db())], words].concat();
        Self::running(sandbox, name, size, env, &all)
    }

    /// With this program and its words in the pane.
    fn running(
        sandbox: &'a Sandbox,
        name: &str,
        size: (&str, &str),
        env: &[&str],
        words: &[&str],
    ) -> Self {
        let script = sandbox.scratch.join("shell");
        fs::write(&script, SHELL).unwrap();
        let tmux = Self { sandbox, socket: sandbox.scratch.join(name) };
        let session = ["-f", "/dev/null", "new-session", "-d", "-x", size.0, "-y", size.1, "-c"];
        let mut command = tmux.command(&session);
        command.arg(sandbox.scratch.path()).arg("env").args(env).args(["sh", p(&script)]);
        command.args(words);
        // The server itself insists on UTF-8.
        let done = command.env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8").output().unwrap();
        assert!(done.status.success(), "{done:?}");
        tmux
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = tool("tmux");
        command.env_remove("TMUX").arg("-S").arg(&self.socket).args(args);
        command
    }

    /// One command of tmux; what it prints.
    #[track_caller]
    pub fn does(&self, args: &[&str]) -> String {
        let done = self.command(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// What is on the screen, with the sequences of its colours.
    pub fn screen(&self) -> String {
        self.does(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen, without its colours, is as it should be.
    #[track_caller]
    pub fn shows(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        loop {
            let screen = self.does(&["capture-pane", "-p"]);
            if is_so(&screen) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "never {what}:\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for words on a screen of so many columns, each at least once, and the title once.
    #[track_caller]
    pub fn shows_words(&self, columns: usize, words: &[&str]) {
        self.shows("the view", |screen| {
            words.iter().all(|word| screen.contains(word))
                && screen.matches(words[0]).count() == 1
                && screen.lines().all(|line| line.chars().count() <= columns)
        });
    }

    /// Waits for the whole view, once, in so many columns, with a bar for the throughput if it is asked for.
    #[track_caller]
    fn shows_view(&self, columns: usize, bars: &[char]) {
        self.shows("the view", |screen| {
            let mut of_throughput = screen.lines().filter(|line| line.contains("throughput"));
            WORDS.iter().all(|word| screen.contains(word))
                && of_throughput.next().is_some_and(|line| bars.is_empty() || line.ends_with(bars))
                && of_throughput.next().is_none()
                && screen.lines().all(|line| line.chars().count() <= columns)
        });
    }

    /// Fathom has ended as interrupted: the terminal is as before, and shows what is typed.
    #[track_caller]
    pub fn is_given_back(&self) {
        self.shows("the end", |screen| screen.contains("ended with 130"));
        let settings = |when: &str| fs::read_to_string(self.sandbox.scratch.join(when)).unwrap();
        assert_eq!(settings("before"), settings("after"));
        let state =
            "#{alternate_on} #{cursor_flag} #{insert_flag} #{mouse_any_flag} #{keypad_flag}";
        assert_eq!(self.does(&["display-message", "-p", state]).trim(), "0 1 0 0 0");
        self.does(&["send-keys", "typed here"]);
        self.shows("what is typed", |screen| screen.trim_end().ends_with("typed here"));
        self.shows("the result", |screen| {
            screen.contains("Stored as") && !screen.contains("q end")
        });
        self.sandbox.nothing_left(&[]);
    }
}

fn in_tmux() {
    let sandbox = Sandbox::new();
    let tmux = Tmux::start(&sandbox, "wide", ("120", "40"), &[]);
    tmux.shows_view(120, &['\u{2588}']);
    let screen = tmux.screen();
    assert!(screen.contains("\u{1b}[36m"), "bars in colour: {screen:?}");
    // Narrower and lower, and wider again: nothing of the former view stays.
    for (columns, lines) in [(80, 24), (100, 30)] {
        let size = [columns, lines].map(|n: usize| n.to_string());
        tmux.does(&["resize-window", "-x", &size[0], "-y", &size[1]]);
        tmux.shows_view(columns, &['\u{2588}']);
    }
    tmux.does(&["send-keys", "q"]);
    tmux.shows("the question", |screen| screen.contains("End the run?"));
    tmux.does(&["send-keys", "y"]);
    tmux.is_given_back();
    drop(tmux);
    let plain = ["LC_ALL=C", "LANG=C", "NO_COLOR=1"];
    for (name, bars, by_key) in [("key", ['#'].as_slice(), true), ("signal", &[], false)] {
        let tmux = Tmux::start(&sandbox, name, ("80", "24"), &plain);
        tmux.shows_view(80, bars);
        let screen = tmux.screen();
        assert!(screen.is_ascii(), "{screen:?}");
        // tmux itself goes back to the colour of the terminal, 39.
        let is_coloured = |part: &str| !part.starts_with("39m") && part.starts_with('3');
        assert!(!screen.split("\u{1b}[").skip(1).any(is_coloured), "{screen:?}");
        if by_key {
            tmux.does(&["send-keys", "C-c"]);
        } else {
            let pid = fs::read_to_string(sandbox.scratch.join("pid")).unwrap();
            run_tool("kill", ["-TERM", pid.trim()]).unwrap();
        }
        tmux.is_given_back();
    }
    assert_eq!(sandbox.runs().len(), 3);
}

/// A server of ssh that is started by its client and speaks through its pipe: no port, and nothing that goes on. The client's words.
fn connection(sandbox: &Sandbox) -> Vec<String> {
    let scratch = &sandbox.scratch;
    let [config, host, user] = ["config", "host", "user"].map(|name| scratch.join(name));
    for key in [&host, &user] {
        run_tool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", p(key)]).unwrap();
    }
    let text = format!(
        "HostKey {}\nAuthorizedKeysFile {}.pub\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n",
        host.display(),
        user.display()
    );
    fs::write(&config, text).unwrap();
    // As the package's own service does it: sshd wants an empty directory.
    fs::create_dir_all("/run/sshd").unwrap();
    let server = format!("ProxyCommand={} -i -f {}", p(&find_tool("sshd").unwrap()), p(&config));
    let ssh = find_tool("ssh").unwrap();
    let mut words: Vec<String> =
        [p(&ssh), "-tt", "-F", "none", "-i", p(&user)].map(str::to_owned).into();
    let known = "StrictHostKeyChecking=no";
    for option in
        ["BatchMode=yes", known, "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", &server]
    {
        words.extend(["-o".to_owned(), option.to_owned()]);
    }
    words.push("here".to_owned());
    words
}

/// Over a real connection of ssh: the view, at every size; keys; what the shell is told at the end; and a connection that breaks, after
/// which the run ends as by a signal.
fn over_a_connection() {
    let sandbox = Sandbox::new();
    let fathom = fathom_testkit::fathom_binary().unwrap();
    let ssh = connection(&sandbox);
    let over = |name: &str, locale: &str| {
        let remote = ["env", locale, p(&fathom), "--db", p(sandbox.db())];
        let load = ["run", "randread", "null:", "size=64M", "rate=1000", "duration=10m"];
        let words: Vec<&str> = ssh.iter().map(String::as_str).chain(remote).chain(load).collect();
        Tmux::running(&sandbox, name, ("80", "24"), &[], &words)
    };
    let tmux = over("unicode", "LC_ALL=C.UTF-8");
    tmux.shows_view(80, &['\u{2588}']);
    for (columns, lines) in [(60, 16), (100, 30)] {
        let size = [columns, lines].map(|n: usize| n.to_string());
        tmux.does(&["resize-window", "-x", &size[0], "-y", &size[1]]);
        tmux.shows_view(columns, &['\u{2588}']);
    }
    tmux.does(&["send-keys", "q"]);
    tmux.shows("the question", |screen| screen.contains("End the run?"));
    tmux.does(&["send-keys", "y"]);
    tmux.is_given_back();
    drop(tmux);
    let tmux = over("broken", "LC_ALL=C");
    tmux.shows_view(80, &['#']);
    let client = fs::read_to_string(sandbox.scratch.join("pid")).unwrap();
    run_tool("kill", ["-KILL", client.trim()]).unwrap();
    wait_until("the run is stored", || {
        sandbox.runs().iter().filter(|run| run["state"] != "running").count() == 2
    });
    sandbox.nothing_left(&[]);
}
