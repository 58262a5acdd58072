//! Screening: Plackett-Burman designs. Many factors of two levels in few runs, for main effects only.

use super::two_levels;
use crate::PlanError;
use fathom_model::plan::Plan;

/// First rows of the cyclic designs, by number of runs; each other row is the one before moved by one place, the last has
/// every factor at its low level.
const FIRST_ROWS: [(usize, &str); 5] = [
    (8, "+++-+--"),
    (12, "++-+++---+-"),
    (16, "++++-+-++--+---"),
    (20, "++--++++-+-+----++-"),
    (24, "+++++-+-++--++--+-+----"),
];

/// The rows of the smallest design that has a column for each factor.
pub fn rows(plan: &Plan) -> Result<Vec<Vec<usize>>, PlanError> {
    let levels = two_levels(plan)?;
    let Some((runs, first)) = FIRST_ROWS.iter().find(|(runs, _)| *runs > levels.len()) else {
        let reason = format!("{} factors are too many: screening takes up to 23", levels.len());
        return Err(PlanError::new(reason).about("design.kind"));
    };
    if levels.len() < 4 {
        let all = 1usize << levels.len();
        let reason = format!(
            "{} factors have no more than {all} combinations; kind = \"full\" measures them all",
            levels.len()
        );
        return Err(PlanError::new(reason).about("design.kind"));
    }
    let signs = matrix(*runs, first);
    let row = |signs: &Vec<bool>| {
        levels.iter().zip(signs).map(|(pair, is_high)| pair[usize::from(*is_high)]).collect()
    };
    Ok(signs.iter().map(row).collect())
}

/// Runs x (runs - 1) signs, high is true.
pub fn matrix(runs: usize, first: &str) -> Vec<Vec<bool>> {
    let first: Vec<bool> = first.chars().map(|sign| sign == '+').collect();
    let columns = first.len();
    let moved = |by: usize| (0..columns).map(|at| first[(at + columns - by) % columns]).collect();
    let mut rows: Vec<Vec<bool>> = (0..columns).map(moved).collect();
    rows.push(vec![false; columns]);
    debug_assert_eq!(rows.len(), runs);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_are_balanced_and_orthogonal() {
        for (runs, first) in FIRST_ROWS {
            let rows = matrix(runs, first);
            assert_eq!((rows.len(), rows[0].len()), (runs, runs - 1));
            for a in 0..runs - 1 {
                assert_eq!(rows.iter().filter(|row| row[a]).count(), runs / 2, "{runs}: {a}");
                for b in 0..a {
                    let both = rows.iter().filter(|row| row[a] && row[b]).count();
                    let neither = rows.iter().filter(|row| !row[a] && !row[b]).count();
                    assert_eq!((both, neither), (runs / 4, runs / 4), "{runs}: {a} and {b}");
                }
            }
        }
    }
}
