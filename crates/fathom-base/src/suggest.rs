//! "Did you mean": the nearest known word to a mistyped one.

/// The known word nearest to `word`, when it is near enough to be a typing error: the one with the fewest slips of the finger.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near =
        known.into_iter().filter_map(|candidate| Some((distance(word, candidate)?, candidate)));
    near.max_by(|a, b| b.0.total_cmp(&a.0)).map(|(_, candidate)| candidate)
}

/// How far a word is from a known one, in slips; none when that is no typing error. Of equally many slips those are less that leave more
/// letters in their order.
fn distance(word: &str, candidate: &str) -> Option<f64> {
    let slips = strsim::damerau_levenshtein(word, candidate);
    let is_whole = is_part(word, candidate);
    let likeness = strsim::jaro_winkler(word, candidate);
    if !is_whole && (!mostly_right(slips, word, candidate) || slips > 1 && likeness <= 0.75) {
        return None;
    }
    // What is left out at an end was not mistyped.
    let counted = if is_whole { slips.min(1) } else { slips };
    Some(f64::from(u32::try_from(counted).unwrap_or(u32::MAX)) + (1.0 - likeness) / 2.0)
}

/// Somebody wrote the beginning of a longer word, or all of it but what stands before a dot: so much of it that it is no chance.
fn is_part(word: &str, candidate: &str) -> bool {
    let after_dot = candidate.rsplit('.').next().unwrap_or(candidate);
    word.chars().count() >= 3 && (candidate.starts_with(word) || after_dot == word)
}

/// At least three of five letters of the longer word were hit: letters in common alone are no likeness, short words have them
/// with everything.
fn mostly_right(slips: usize, word: &str, candidate: &str) -> bool {
    5 * slips <= 2 * word.chars().count().max(candidate.chars().count())
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
        // Of equally near ones the last: the highest, where they are numbered.
        assert_eq!(nearest("raid7", ["raid0", "raid5", "raid6", "raid10"]), Some("raid6"));
        // A common beginning is no likeness by itself, and no reason to prefer what has more slips.
        assert_eq!(nearest("raid-levl", ["raid-busy", "raid-level"]), Some("raid-level"));
        assert_eq!(nearest("raid-levl", ["raid-busy"]), None);
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
