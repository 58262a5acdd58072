//! Names of others on terminals and pages: a path, a label or a snapshot may hold characters that drive a terminal, or that show text
//! in another order than it has.

/// True for characters that do something instead of being shown: control characters, and those that turn the direction of writing.
#[must_use]
pub fn is_acting(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Separators of lines and paragraphs begin new ones.
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text with `?` in the place of each such character.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_acting(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_replaced_and_letters_stay() {
        assert_eq!(printable("a\u{1b}[2J\u{7}\u{9b}b\n"), "a?[2J??b?");
        assert_eq!(
            printable("gpj.\u{202e}exe \u{2066}x\u{2069} \u{200f}\u{2028}"),
            "gpj.?exe ?x? ??"
        );
        for text in [
            "Gr\u{f6}\u{df}e",
            "\u{434}\u{435}\u{43d}\u{44c}",
            "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
            "\u{30c7}\u{30fc}\u{30bf}",
            "a\u{301}",
        ] {
            assert_eq!(printable(text), text);
        }
    }
}
