//! What `fathom run --until-steady` prints: the rounds, whether they became steady, and the verification window.

use crate::table::{Align, Table};
use crate::text::push_wrapped_to;
use fathom_stats::steady::{ROUNDS_MAX, WINDOW_ROUNDS};
use fathom_study::rounds::{Followed, Rounds};

/// The whole answer in so many columns.
#[must_use]
pub fn text(found: &Rounds, width: usize) -> String {
    let mut out = rounds_table(found, width);
    out.push('\n');
    let Some((first, last)) = found.window else {
        push_wrapped_to(&mut out, width, "", &format!("{}.", answer(found)));
        return out;
    };
    let text = format!("{}. Verification window, rounds {first} to {last}:", answer(found));
    push_wrapped_to(&mut out, width, "", &text);
    out += &window_table(found, width);
    let (range, rise) = (100.0 * found.range_share_max, 100.0 * found.rise_share_max);
    let rule = format!(
        "steady: range (largest less smallest) at most {range:.0} % of the average, and what the fitted line rises or falls \
         over the window at most {rise:.0} % (SNIA PTS, definition 2.1.24), of every figure that is not \"shown only\"."
    );
    push_wrapped_to(&mut out, width, "  ", &rule);
    out
}

/// Whether and when.
fn answer(found: &Rounds) -> String {
    let rounds = found.rounds;
    match (found.reached, found.left, found.window) {
        (Some(round), Some(left), _) => {
            format!("Steady state reached at round {round}, and left at round {left}")
        }
        (Some(round), ..) => format!("Steady state reached at round {round}"),
        (None, _, Some(_)) => format!("Steady state not reached in {rounds} rounds"),
        (None, ..) => {
            format!("Steady state not reached: {rounds} whole rounds, and it takes {WINDOW_ROUNDS}")
        }
    }
}

/// The answer with the averages that it is about, in a sentence.
#[must_use]
pub fn sentence(found: &Rounds) -> String {
    let average = |figure: &Followed| {
        let (of, window) = (&figure.metric, figure.window?);
        Some(format!("{} {} {}", figure.name, of.words(), of.text(window.average)))
    };
    let tracked = found.figures.iter().filter(|figure| figure.is_tracked);
    let averages: Vec<String> = tracked.filter_map(average).collect();
    match found.window {
        Some((first, last)) => format!(
            "{}. Averages of rounds {first} to {last}: {}.",
            answer(found),
            averages.join(", ")
        ),
        None => format!("{}.", answer(found)),
    }
}

/// The figures of each round, row by row; of very many rounds the newest.
fn rounds_table(found: &Rounds, width: usize) -> String {
    let mut out = String::new();
    let hidden = found.rounds.saturating_sub(ROUNDS_MAX);
    for row in found.figures.chunk_by(|a, b| a.name == b.name) {
        push_wrapped_to(&mut out, width, "", &row[0].name);
        let titles: Vec<String> = row.iter().map(|figure| figure.metric.words()).collect();
        let mut columns = vec![("round", Align::Right)];
        columns.extend(titles.iter().map(|title| (title.as_str(), Align::Right)));
        let mut table = Table::new(columns, 3);
        for round in hidden..found.rounds {
            let values = row.iter().map(|figure| figure.metric.text(figure.values[round]));
            let cells = std::iter::once((round + 1).to_string()).chain(values);
            let at = Some(round + 1);
            let remark = match at {
                _ if found.reached == at => "<- steady",
                _ if found.left == at => "<- no longer",
                _ => "",
            };
            table.row_with_remark(cells, remark);
        }
        out += &table.render_to(2, width);
    }
    if hidden > 0 {
        push_wrapped_to(
            &mut out,
            width,
            "  ",
            &format!("{hidden} earlier rounds not shown; --json has all"),
        );
    }
    out
}

fn window_table(found: &Rounds, width: usize) -> String {
    let mut table = Table::new(
        [
            ("", Align::Left),
            ("", Align::Left),
            ("average", Align::Right),
            ("range", Align::Right),
            ("line", Align::Right),
        ],
        3,
    );
    for figure in &found.figures {
        if let Some(cells) = window_cells(figure) {
            table.row_with_remark(cells, remark(figure));
        }
    }
    table.render_to(2, width)
}

fn window_cells(figure: &Followed) -> Option<[String; 5]> {
    let window = figure.window?;
    Some([
        figure.name.clone(),
        figure.metric.words(),
        figure.metric.text(window.average),
        share(figure.range_share?, |percent| format!("{percent:.1} %")),
        share(figure.rise_share?, |percent| format!("{percent:+.1} %")),
    ])
}

/// There is no share of nothing.
fn share(share: f64, text: fn(f64) -> String) -> String {
    if share.is_finite() { text(100.0 * share) } else { "n/a".to_owned() }
}

fn remark(figure: &Followed) -> &'static str {
    match figure.window {
        _ if !figure.is_tracked => "(shown only)",
        Some(window) if window.is_steady() => "",
        _ => "<- not steady",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::randomio;
    use crate::text::WIDTH;
    use expect_test::expect;
    use fathom_study::rounds::study;

    fn rounds(iops: &[u64]) -> Rounds {
        let round = |(number, iops): (usize, &u64)| {
            let mut record = randomio(*iops);
            record.label = format!("randomio #{number}");
            record
        };
        let records: Vec<_> = (1..).zip(iops).map(round).collect();
        study(&records)
    }

    #[test]
    fn rounds_that_become_steady() {
        expect![[r#"
            randomio
              round   IOPS   read mean   read p99   write mean   write p99
                  1    400       44 ms     152 ms       2.1 ms      7.1 ms
                  2    200       44 ms     152 ms       2.1 ms      7.1 ms
                  3    110       44 ms     152 ms       2.1 ms      7.1 ms
                  4    104       45 ms     152 ms       2.1 ms      7.1 ms
                  5    101       44 ms     152 ms       2.1 ms      7.1 ms
                  6    100       44 ms     152 ms       2.1 ms      7.1 ms
                  7    100       44 ms     152 ms       2.1 ms      7.1 ms   <- steady

            Steady state reached at round 7. Verification window, rounds 3 to 7:
                                      average   range     line
              randomio   IOPS             103   9.7 %   -9.3 %
              randomio   read mean      44 ms   0.0 %   +0.0 %
              randomio   read p99      152 ms   0.0 %   +0.0 %   (shown only)
              randomio   write mean    2.1 ms   0.2 %   +0.2 %
              randomio   write p99     7.1 ms   0.0 %   +0.0 %   (shown only)
              steady: range (largest less smallest) at most 20 % of the average, and what the fitted line rises or falls
              over the window at most 10 % (SNIA PTS, definition 2.1.24), of every figure that is not "shown only".
        "#]].assert_eq(&text(&rounds(&[400, 200, 110, 104, 101, 100, 100]), WIDTH));
    }

    #[test]
    fn rounds_that_do_not() {
        let falling = text(&rounds(&[400, 350, 300, 250, 200]), WIDTH);
        assert!(falling.contains("Steady state not reached in 5 rounds."), "{falling}");
        assert!(falling.contains("<- not steady"), "{falling}");
        let few = text(&rounds(&[400, 350]), WIDTH);
        assert!(
            few.ends_with("Steady state not reached: 2 whole rounds, and it takes 5.\n"),
            "{few}"
        );
        let many = text(&rounds(&[100, 200].repeat(20)), WIDTH);
        assert!(
            many.contains("15 earlier rounds not shown") && !many.contains("<- steady"),
            "{many}"
        );
    }
}
