//! The charting library and the page's own script and style: what every report carries along.

use flate2::read::GzDecoder;
use std::io::Read;

/// Name, version and licence, as the foot of a report says them.
pub const CREDIT: &str = "Apache ECharts 6.1.0 (Apache License 2.0)";
/// Apache ECharts 6.1.0, `dist/echarts.min.js`, packed.
const PACKED: &[u8] = include_bytes!("../../vendor/echarts.min.js.gz");
/// The page's own script.
pub const SCRIPT: &str = include_str!("../shell/report.js");
/// The page's style.
pub const STYLE: &str = include_str!("../shell/report.css");

/// SHA-256 of the unpacked library in base64: what the page allows to run.
pub const LIBRARY_SHA256: &str = "tmslrrTfhOMxmdwhaUAU0zbSIsvZ3rDlp8FL1qoND9A=";
/// The same of [`SCRIPT`], without the newline at its end.
pub const SCRIPT_SHA256: &str = include_str!("../shell/report.js.sha256").trim_ascii_end();

/// The library as it was published; none when the program's file is damaged.
#[must_use]
pub fn library() -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(PACKED).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// By a program that knows nothing of this one.
    fn sha256(content: &str) -> Vec<u8> {
        let mut program = Command::new("sha256sum")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sha256sum (coreutils)");
        program.stdin.take().expect("piped").write_all(content.as_bytes()).expect("written");
        let done = program.wait_with_output().expect("ended");
        let hex = String::from_utf8(done.stdout).expect("text");
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex");
        (0..32).map(byte).collect()
    }

    fn base64(bytes: &[u8]) -> String {
        const SIGNS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for group in bytes.chunks(3) {
            let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for place in 0..4 {
                let sign = SIGNS[(bits >> (18 - 6 * place)) as usize & 63];
                out.push(if place <= group.len() { char::from(sign) } else { '=' });
            }
        }
        out
    }

    #[test]
    fn the_library_is_what_was_published() {
        let library = library().expect("unpacks");
        assert_eq!(base64(&sha256(&library)), LIBRARY_SHA256);
        let hex: String = sha256(&library).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(include_str!("../../vendor/README.md").contains(&hex), "{hex}");
        assert!(!library.contains("</script"));
        assert!(library.contains("Licensed to the Apache Software Foundation"));
    }

    #[test]
    fn the_page_allows_its_own_script_only() {
        let sum = base64(&sha256(SCRIPT.trim_end())) + "\n";
        expect_file!["../shell/report.js.sha256"].assert_eq(&sum);
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
        assert!(!SCRIPT.contains("http") && !STYLE.contains("http") && !STYLE.contains("url("));
    }
}
