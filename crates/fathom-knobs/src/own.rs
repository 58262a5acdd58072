//! Settings of the user's own: read and written by commands.

use fathom_base::shell;
use fathom_model::plan::OwnKnob;
use fathom_sys::process::dies_with_parent;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The most that a value may be long.
const VALUE_BYTES_MAX: u64 = 4096;

/// What the read command prints, without white space around it.
///
/// # Errors
/// A command that cannot be started, fails, prints nothing or more than a value, or takes longer than a minute.
pub fn read(own: &OwnKnob) -> Result<String, String> {
    let text = run(&own.read, Stdio::piped())?;
    let value = text.trim();
    if value.is_empty() {
        Err(format!("`{}` printed nothing", own.read))
    } else {
        Ok(value.to_owned())
    }
}

/// Runs the write command with the value in place of `{value}`, as one word for the shell.
///
/// # Errors
/// As [`read`].
pub fn write(own: &OwnKnob, value: &str) -> Result<(), String> {
    // What it prints is nobody's, and a daemon that it starts would hold a pipe open.
    run(&own.write.replace("{value}", &shell::word(value)), Stdio::null()).map(drop)
}

fn run(command: &str, output: Stdio) -> Result<String, String> {
    let failed = |reason: String| format!("`{command}`: {reason}");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env("LC_ALL", "C").stdin(Stdio::null());
    shell.stdout(output).stderr(Stdio::null());
    // It must not write on after fathom was killed, when the value has been put back already.
    dies_with_parent(&mut shell);
    let mut child = shell.spawn().map_err(|error| failed(error.to_string()))?;
    let output = child.stdout.take();
    // Read beside the wait: a command that prints much must not wait for a reader for ever.
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let taken = output.map(|output| output.take(VALUE_BYTES_MAX).read_to_string(&mut text));
        (taken.is_none_or(|taken| taken.is_ok()), text)
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < TIME_MAX => std::thread::sleep(LOOK),
            Ok(None) => {
                child.kill().ok();
                child.wait().ok();
                return Err(failed(format!("took longer than {} s", TIME_MAX.as_secs())));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    if !status.success() {
        return Err(failed(format!("failed ({status})")));
    }
    match reader.join() {
        Ok((true, text)) => Ok(text),
        Ok((false, _)) | Err(_) => Err(failed("printed no text".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(read: &str, write: &str) -> OwnKnob {
        let (read, write) = (read.to_owned(), write.to_owned());
        OwnKnob { name: "x".to_owned(), read, write, values: vec!["a b".to_owned()] }
    }

    #[test]
    fn values_are_one_word_for_the_shell() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("value").display().to_string();
        let own = own(&format!("cat {file}"), &format!("echo {{value}} > {file}"));
        assert!(read(&own).is_err());
        write(&own, "a b; rm -rf \"$HOME\"").unwrap();
        assert_eq!(read(&own).unwrap(), "a b; rm -rf \"$HOME\"");
    }

    #[test]
    fn failures_name_the_command() {
        assert!(read(&own("exit 3", "true")).unwrap_err().contains("`exit 3`: failed"));
        assert!(read(&own("true", "true")).unwrap_err().contains("printed nothing"));
    }
}
