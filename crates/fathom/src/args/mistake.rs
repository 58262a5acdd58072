//! What a wrong command line is told, for programs: people read it as clap writes it.

use serde_json::{Value, json};

/// From the text of an error: the error on one line, what was probably meant, how the command is used.
pub fn fields(text: &str) -> Value {
    let mut paragraphs = text.trim().split("\n\n");
    let error = on_one_line(paragraphs.next().unwrap_or_default());
    let error = error.strip_prefix("error: ").unwrap_or(&error);
    let (mut advice, mut usage) = (Vec::new(), None);
    for paragraph in paragraphs {
        if let Some(words) = paragraph.trim_start().strip_prefix("Usage:") {
            usage = Some(on_one_line(words));
            continue;
        }
        let lines = paragraph.lines().map(str::trim);
        advice.extend(lines.filter_map(|line| line.strip_prefix("tip: ")).map(str::to_owned));
    }
    json!({ "error": error, "advice": advice, "usage": usage })
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser;

    #[test]
    fn programs_are_told_all_that_people_are() {
        let of = |words: &[&str]| {
            let error = Args::try_parse_from(words).err().map(|error| error.to_string());
            fields(&error.unwrap_or_default())
        };
        let meant = of(&["fathom", "run", "--jsn", "x", "y"]);
        assert_eq!(meant["error"], "unexpected argument '--jsn' found");
        assert_eq!(meant["advice"], json!(["a similar argument exists: '--json'"]));
        assert!(meant["usage"].as_str().is_some_and(|usage| usage.starts_with("fathom run")));
        let missing = of(&["fathom", "run", "randread"]);
        let words = "the following required arguments were not provided: <TARGET>";
        assert_eq!((&missing["error"], &missing["advice"]), (&json!(words), &json!([])));
        let value = of(&["fathom", "compare", "a", "b", "--fail-on=x"]);
        assert!(value["error"].as_str().is_some_and(|error| error.contains("doubtful, void")));
        assert_eq!(
            fields("--x: is no option"),
            json!({ "error": "--x: is no option", "advice": [], "usage": null })
        );
    }
}
