//! Texts of records inside of HTML: a label, a path or a disk's model may hold anything.

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
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
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
