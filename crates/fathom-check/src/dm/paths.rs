//! Multipath maps.

use super::Words;

/// A group of paths that are used together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathGroup<'a> {
    /// What chooses among its paths (`service-time`); only the table tells.
    pub selector: &'a str,
    /// The paths.
    pub paths: Vec<Path<'a>>,
}

/// A path of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path<'a> {
    /// Device as `major:minor`.
    pub device: &'a str,
    /// False once it has failed; only the status tells.
    pub is_active: bool,
    /// How often it has failed; only the status tells.
    pub failures: u64,
}

/// Table of a `multipath`: features, and the groups with their selectors.
///
/// `2 queue_if_no_path retain_attached_hw_handler 1 alua 1 1 service-time 0 2 2 8:0 1 1 8:16 1 1`.
#[must_use]
pub fn multipath_table(text: &str) -> Option<(Vec<&str>, Vec<PathGroup<'_>>)> {
    let mut words = Words::of(text);
    let features = words.list()?;
    let _hardware_handler = words.list()?;
    let groups = groups(&mut words, |words| words.word(), |_| Some((true, 0)))?;
    Some((features, groups))
}

/// Status of a `multipath`: `2 0 0 0 1 1 A 0 2 2 8:0 A 0 0 1 8:16 F 1 0 1`.
#[must_use]
pub fn multipath_status(text: &str) -> Option<Vec<PathGroup<'_>>> {
    let mut words = Words::of(text);
    let _features = words.list()?;
    let _hardware_handler = words.list()?;
    let state = |words: &mut Words<'_>| Some((words.word()? == "A", words.number()?));
    groups(
        &mut words,
        |words| {
            let _state_of_the_group = words.word()?;
            Some("")
        },
        state,
    )
}

/// Groups as tables and statuses have them: their number, which is used, and for each what comes first, arguments of the
/// selector, how many paths with how many words each, and the paths.
fn groups<'a>(
    words: &mut Words<'a>,
    first: impl Fn(&mut Words<'a>) -> Option<&'a str>,
    state: impl Fn(&mut Words<'a>) -> Option<(bool, u64)>,
) -> Option<Vec<PathGroup<'a>>> {
    let count = words.number()?;
    let _used = words.number()?;
    let mut groups = Vec::new();
    for _ in 0..count {
        let selector = first(words)?;
        let _arguments = words.list()?;
        let (number, path_words) = (words.number()?, words.number()?);
        let mut paths = Vec::new();
        for _ in 0..number {
            let device = words.word()?;
            let (is_active, failures) = state(words)?;
            let _arguments = words.words(path_words)?;
            paths.push(Path { device, is_active, failures });
        }
        groups.push(PathGroup { selector, paths });
    }
    Some(groups)
}
