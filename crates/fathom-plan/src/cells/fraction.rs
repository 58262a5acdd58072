//! Regular fractions of two-level factorials, with what is aliased stated.
//!
//! The first m factors take all combinations. Each further one follows the product of some of them: of any number from two on
//! at resolution III, of an odd number from three on at resolution IV. Products of most factors are taken first. Signs are
//! such that the baseline is always among the cells.

use super::two_levels;
use crate::PlanError;
use fathom_base::order::Order;
use fathom_model::plan::Plan;

/// A design: which factors each column is the product of, as bits over the basic ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fraction {
    /// Basic factors.
    pub basic: usize,
    /// Of each factor, basic ones included, the basic ones that make it.
    pub words: Vec<u32>,
    /// 3 or 4, as asked for at the least.
    pub resolution: u8,
}

/// The smallest fraction for so many factors.
///
/// # Errors
/// That no fraction is smaller than everything.
pub fn fraction(factors: usize, resolution: u8) -> Result<Fraction, PlanError> {
    let refuse = |reason: String| Err(PlanError::new(reason).about("design.kind"));
    let columns = |basic: usize| match resolution {
        3 => (1usize << basic) - 1,
        _ => 1usize << (basic - 1),
    };
    let Some(basic) = (2..=12).find(|basic| columns(*basic) >= factors) else {
        return refuse(format!(
            "{factors} factors are too many for a fraction; screening takes up to 23"
        ));
    };
    if basic >= factors {
        let cells = 1usize << factors.min(16);
        let how =
            if resolution == 4 && factors == 3 { ", or resolution = 3 half of them" } else { "" };
        return refuse(format!(
            "no fraction at resolution {resolution} is smaller than all {cells} combinations of {factors} factors; \
             kind = \"full\" measures them{how}"
        ));
    }
    let mut products: Vec<u32> = (1u32..1 << basic)
        .filter(|word| match resolution {
            3 => word.count_ones() >= 2,
            _ => word.count_ones() >= 3 && word.count_ones() % 2 == 1,
        })
        .collect();
    products.order_by_key(|word| (u32::MAX - word.count_ones(), *word));
    let words = (0..basic).map(|at| 1 << at).chain(products).take(factors).collect();
    Ok(Fraction { basic, words, resolution })
}

impl Fraction {
    /// Whether each factor is at its high level in a run, from 0.
    pub fn run(&self, run: u32) -> Vec<bool> {
        let sign = |word: &u32| (run & word).count_ones() % 2 == 1;
        // Of an even product the high level is where an odd number of its factors is high too: the run without any high
        // level is the baseline.
        self.words.iter().map(sign).collect()
    }

    /// Groups of effects (one factor, or two together) that cannot be told apart, as places of factors.
    pub fn aliases(&self) -> Vec<Vec<Vec<usize>>> {
        let count = self.words.len();
        let mut effects: Vec<Vec<usize>> = (0..count).map(|a| vec![a]).collect();
        effects.extend((0..count).flat_map(|a| (a + 1..count).map(move |b| vec![a, b])));
        let word = |effect: &[usize]| effect.iter().fold(0, |word, at| word ^ self.words[*at]);
        let mut groups: Vec<(u32, Vec<Vec<usize>>)> = Vec::new();
        for effect in effects {
            let of = word(&effect);
            match groups.iter_mut().find(|(known, _)| *known == of) {
                Some((_, group)) => group.push(effect),
                None => groups.push((of, vec![effect])),
            }
        }
        groups.into_iter().map(|(_, group)| group).filter(|group| group.len() > 1).collect()
    }
}

/// The rows of the design of a plan.
pub fn rows(plan: &Plan) -> Result<Vec<Vec<usize>>, PlanError> {
    let levels = two_levels(plan)?;
    let design = fraction(levels.len(), plan.design.resolution.unwrap_or(4))?;
    let row = |run: u32| {
        let signs = design.run(run);
        levels.iter().zip(signs).map(|(pair, is_high)| pair[usize::from(is_high)]).collect()
    };
    Ok((0..1 << design.basic).map(row).collect())
}

/// What cannot be told apart in the fractional design of a plan, one line for each group: `scheduler = chunk x threads`; empty
/// for other designs.
#[must_use]
pub fn aliases(plan: &Plan) -> Vec<String> {
    if plan.design.kind != fathom_model::plan::DesignKind::Fractional {
        return Vec::new();
    }
    let Ok(design) = fraction(plan.factors.len(), plan.design.resolution.unwrap_or(4)) else {
        return Vec::new();
    };
    let effect = |places: &Vec<usize>| {
        let names: Vec<&str> = places.iter().map(|at| plan.factors[*at].name.as_str()).collect();
        names.join(" x ")
    };
    let line = |group: &Vec<Vec<usize>>| group.iter().map(effect).collect::<Vec<_>>().join(" = ");
    design.aliases().iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signs of an effect over all runs: the product of its columns as -1 and 1.
    fn contrast(rows: &[Vec<bool>], effect: &[usize]) -> Vec<i32> {
        let sign =
            |row: &Vec<bool>| effect.iter().map(|at| if row[*at] { 1 } else { -1 }).product();
        rows.iter().map(sign).collect()
    }

    #[test]
    fn fractions_are_orthogonal_and_alias_what_they_say() {
        for (factors, resolution) in
            [(3, 3), (4, 4), (5, 3), (6, 3), (7, 3), (5, 4), (8, 4), (11, 3), (16, 4)]
        {
            let design = fraction(factors, resolution).expect("a fraction");
            let rows: Vec<Vec<bool>> = (0..1 << design.basic).map(|run| design.run(run)).collect();
            assert!(rows.len() < 1 << factors, "it is smaller");
            assert!(rows[0].iter().all(|is_high| !is_high), "the baseline is a run");
            let mains: Vec<Vec<usize>> = (0..factors).map(|at| vec![at]).collect();
            let pairs: Vec<Vec<usize>> =
                (0..factors).flat_map(|a| (0..a).map(move |b| vec![b, a])).collect();
            let effects: Vec<Vec<usize>> = mains.into_iter().chain(pairs).collect();
            let stated = design.aliases();
            for (index, a) in effects.iter().enumerate() {
                let of_a = contrast(&rows, a);
                assert_eq!(of_a.iter().sum::<i32>(), 0, "{factors} {a:?} is balanced");
                for b in &effects[..index] {
                    let dot: i32 = contrast(&rows, b).iter().zip(&of_a).map(|(x, y)| x * y).sum();
                    let is_stated =
                        stated.iter().any(|group| group.contains(a) && group.contains(b));
                    // Two effects are either told apart fully or not at all.
                    assert_eq!(dot.unsigned_abs() as usize, if is_stated { rows.len() } else { 0 });
                    let order = a.len() + b.len();
                    assert!(!is_stated || order >= resolution as usize, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn what_saves_nothing_is_refused() {
        for (factors, resolution) in [(1, 3), (2, 3), (3, 4), (2, 4)] {
            let error = fraction(factors, resolution).expect_err("nothing saved").to_string();
            assert!(error.contains("kind = \"full\""), "{error}");
        }
        assert!(fraction(5000, 3).is_err());
    }
}
