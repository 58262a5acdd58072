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
    // A much longer word is near by what it begins with, and by nothing else.
    if candidate.len() > 2 * word.len() && !candidate.starts_with(word) {
        return 0.0;
    }
    let by_letters = strsim::jaro_winkler(word, candidate);
    if strsim::damerau_levenshtein(word, candidate) == 1 { by_letters.max(0.9) } else { by_letters }
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
        assert_eq!(hint("durationn", known), "; did you mean 'duration'?");
    }
}
