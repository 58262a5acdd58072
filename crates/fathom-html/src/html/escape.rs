//! Texts of records inside of HTML: a label, a path or a disk's model may hold anything.

use fathom_base::printable::is_acting;

/// Text between tags and inside of quoted attributes. Control characters are shown as such and do nothing.
#[must_use]
pub fn text(plain: &str) -> String {
    let mut out = String::with_capacity(plain.len() + 16);
    for c in plain.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            c if is_acting(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Units that stay with their number.
const UNITS: [&str; 22] = [
    "%", "ns", "us", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB",
    "TiB", "B/s", "kB/s", "MB/s", "GB/s", "MiB/s", "IOPS",
];

/// A sentence, in which no line ends inside of a number or between a number and its unit: `39 300`, `740.4 MB/s`.
#[must_use]
pub fn prose(plain: &str) -> String {
    let mut parts = plain.split(' ');
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let stays = ends_as_number(&joined) && (is_group(part) || is_unit(part));
        joined.push(if stays { '\u{a0}' } else { ' ' });
        joined += part;
    }
    text(&joined)
}

fn ends_as_number(before: &str) -> bool {
    let word = before.rsplit([' ', '\u{a0}']).next().unwrap_or_default();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// A further group of three digits, with whatever ends a sentence or a bracket behind.
fn is_group(part: &str) -> bool {
    let digits = part.bytes().take_while(u8::is_ascii_digit).count();
    digits == 3 && part[3..].chars().all(|c| !c.is_alphanumeric())
}

fn is_unit(part: &str) -> bool {
    UNITS.contains(&part.trim_end_matches(['.', ',', ';', ':', ')']))
}

/// JSON inside of a script element: nothing in it ends the element or begins a comment.
#[must_use]
pub fn json(value: &serde_json::Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// A field of comma-separated values, for text that is escaped afterwards.
#[must_use]
pub fn csv(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A word for an `id`, from a heading: `Throughput over time` is `throughput-over-time`.
#[must_use]
pub fn slug(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_whole() {
        let told = "39 300 per second (p99 872 us to 1.7 ms, 10 against 10 runs) & 740.4 MB/s.";
        let shown =
            "39_300 per second (p99 872_us to 1.7_ms, 10 against 10 runs) &amp; 740.4_MB/s.";
        assert_eq!(prose(told), shown.replace('_', "\u{a0}"));
        for plain in ["sd5 100", "4096 100ms", "of 22 and 512 runs", ""] {
            assert_eq!(prose(plain), plain);
        }
    }

    #[test]
    fn nothing_gets_out() {
        let evil = "</script><img src=x onerror='alert(1)'>&\u{7}\"";
        assert_eq!(
            text(evil),
            "&lt;/script&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;\u{fffd}&quot;"
        );
        let quoted = json(&serde_json::json!({ "a": evil }));
        assert!(!quoted.contains(['<', '>', '&']), "{quoted}");
        let back: serde_json::Value = serde_json::from_str(&quoted).expect("still JSON");
        assert_eq!(back["a"], evil);
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(slug("Latency: p99 & max"), "latency-p99-max");
    }
}
