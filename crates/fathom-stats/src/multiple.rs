//! p-values adjusted for asking many questions at once.
//!
//! With twenty comparisons of equal things one is "significant" at 0.05 by luck. Holm is for a few named comparisons of
//! which none may be wrong; Benjamini-Hochberg is for a sweep, where a known share of wrong ones among those found is
//! acceptable. An adjusted p-value is compared with the level itself, and says nothing without the number of
//! comparisons beside it.

use crate::error::StatsError;

/// Holm's step-down adjustment (1979): with the hypotheses whose adjusted p is at most alpha refused, the probability of
/// refusing even one true hypothesis is at most alpha, however the tests depend on each other. Same order as given.
///
/// # Errors
/// A p-value that is not between 0 and 1.
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, StatsError> {
    let order = rising(p_values)?;
    let mut adjusted = vec![0.0; p_values.len()];
    let mut floor = 0.0f64;
    for (i, place) in order.iter().enumerate() {
        let left = (p_values.len() - i) as f64;
        floor = floor.max((p_values[*place] * left).min(1.0));
        adjusted[*place] = floor;
    }
    Ok(adjusted)
}

/// Benjamini and Hochberg's adjustment (1995): of the hypotheses whose adjusted p is at most q, a share of at most q is
/// expected to be true, if the tests are independent or depend on each other positively. Same order as given.
///
/// # Errors
/// A p-value that is not between 0 and 1.
pub fn benjamini_hochberg(p_values: &[f64]) -> Result<Vec<f64>, StatsError> {
    let order = rising(p_values)?;
    let mut adjusted = vec![0.0; p_values.len()];
    let mut ceiling = 1.0f64;
    for (i, place) in order.iter().enumerate().rev() {
        let share = (i + 1) as f64 / p_values.len() as f64;
        ceiling = ceiling.min(p_values[*place] / share);
        adjusted[*place] = ceiling;
    }
    Ok(adjusted)
}

/// The places of the p-values from the smallest to the largest.
fn rising(p_values: &[f64]) -> Result<Vec<usize>, StatsError> {
    if let Some(i) = p_values.iter().position(|p| !(0.0..=1.0).contains(p)) {
        return Err(StatsError::PValue { place: i + 1, value: p_values[i] });
    }
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fifteen comparisons of thrombolysis of Benjamini and Hochberg (1995), section 3.2.
    const THROMBOLYSIS: [f64; 15] = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0,
    ];

    #[test]
    fn published_example() {
        let found = |adjusted: &[f64]| adjusted.iter().filter(|p| **p <= 0.05).count();
        // The paper refuses three with Bonferroni's bound, four with its own.
        assert_eq!(found(&holm(&THROMBOLYSIS).unwrap()), 3);
        assert_eq!(found(&benjamini_hochberg(&THROMBOLYSIS).unwrap()), 4);
    }

    /// statsmodels: multipletests(p, method="holm" and "fdr_bh"); scipy 1.17.1: stats.false_discovery_control(p).
    #[test]
    fn agrees_with_statsmodels() {
        let p = [0.01, 0.02, 0.03, 0.04, 0.05, 0.001, 0.5, 0.9];
        let by_holm = [0.07, 0.12, 0.15, 0.16, 0.16, 0.008, 1.0, 1.0];
        let by_bh = [0.04, 0.16 / 3.0, 0.06, 0.064, 0.2 / 3.0, 0.008, 4.0 / 7.0, 0.9];
        let near = |got: &[f64], expected: &[f64]| {
            got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-15)
        };
        assert!(near(&holm(&p).unwrap(), &by_holm));
        assert!(near(&benjamini_hochberg(&p).unwrap(), &by_bh));
    }

    #[test]
    fn by_hand_and_in_the_given_order() {
        assert_eq!(holm(&[0.5, 0.125, 0.25]), Ok(vec![0.5, 0.375, 0.5]));
        assert_eq!(benjamini_hochberg(&[0.5, 0.125, 0.25]), Ok(vec![0.5, 0.375, 0.375]));
        assert_eq!(holm(&[]), Ok(vec![]));
        assert_eq!(holm(&[0.2]), Ok(vec![0.2]));
        assert_eq!(holm(&[0.5, 1.5]), Err(StatsError::PValue { place: 2, value: 1.5 }));
        assert!(benjamini_hochberg(&[f64::NAN]).is_err());
    }

    proptest! {
        /// Against the step-wise definitions: which hypotheses are refused at each level.
        #[test]
        fn refuse_what_the_definitions_refuse(
            p in prop::collection::vec(0.0f64..=1.0, 1..12),
            alpha in 0.001f64..0.999,
        ) {
            let sorted = crate::interval::sorted(&p);
            let m = p.len();
            let holm_count = (0..m).take_while(|i| sorted[*i] <= alpha / (m - i) as f64).count();
            let bh_count = (0..m).rev().find(|i| sorted[*i] <= alpha * (i + 1) as f64 / m as f64).map_or(0, |i| i + 1);
            let refused = |adjusted: Vec<f64>| adjusted.iter().filter(|p| **p <= alpha).count();
            prop_assert_eq!(refused(holm(&p).unwrap()), holm_count);
            prop_assert_eq!(refused(benjamini_hochberg(&p).unwrap()), bh_count);
        }
    }
}
