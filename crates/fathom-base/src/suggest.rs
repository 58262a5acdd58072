//! "Did you mean": the nearest known word to a mistyped one.

/// The known word nearest to `word`, when it is near enough to be a typing error.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (likeness(word, candidate), candidate))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// 0 to 1; one slip of the finger is always near.
fn likeness(word: &str, candidate: &str) -> f64 {
    let slips = strsim::damerau_levenshtein(word, candidate);
    if !begins(word, candidate) && !mostly_right(slips, word, candidate) {
        return 0.0;
    }
    let by_letters = strsim::jaro_winkler(word, candidate);
    if slips == 1 { by_letters.max(0.9) } else { by_letters }
}

/// Somebody wrote the beginning of a longer word: so much of it that it is no chance.
fn begins(word: &str, candidate: &str) -> bool {
    word.chars().count() >= 3 && candidate.starts_with(word)
}

/// More letters of the longer word were hit than missed: letters in common alone are no likeness, short words have them
/// with everything.
fn mostly_right(slips: usize, word: &str, candidate: &str) -> bool {
    2 * slips < word.chars().count().max(candidate.chars().count())
}

/// `"; did you mean 'x'?"` or an empty string: the tail of an error message.
#[must_use]
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let known = ["threads", "block_size", "duration"];
        assert_eq!(nearest("thread", known), Some("threads"));
        assert_eq!(nearest("blocksize", known), Some("block_size"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest("zebra", ["zero_fraction", "threads"]), None);
        assert_eq!(nearest("zero", ["zero_fraction", "threads"]), Some("zero_fraction"));
        assert_eq!(nearest("mx", ["mix", "log"]), Some("mix"));
        assert_eq!(nearest("factorial", ["full", "fractional"]), Some("fractional"));
        assert_eq!(nearest("scheduler", ["block.scheduler", "none"]), Some("block.scheduler"));
        assert_eq!(hint("durationn", known), "; did you mean 'duration'?");
    }

    /// Pairs that letters in common alone would join.
    #[test]
    fn far_off_words_get_no_hint() {
        for (word, candidate) in [
            ("nosuch", "su"),
            ("nosuch", "loop-sparse"),
            ("s", "su"),
            ("x", "xfs"),
            ("", "su"),
            ("no", "nomerges"),
            ("ab", "ac"),
            ("server", "verify"),
            ("disk", "dd"),
            ("array", "raid"),
        ] {
            assert_eq!(nearest(word, [candidate]), None, "{word} {candidate}");
        }
    }
}
