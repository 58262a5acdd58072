//! What `fathom size` prints: every cell with the reason why it agrees or not.

use crate::figures::iops_text;
use crate::table::{Align, Noted, Table};
use crate::text::push_wrapped_to;
use fathom_base::units::{format_duration, format_size};
use fathom_study::size::{Cell, Outcome, Sizes};

/// The whole answer in so many columns.
#[must_use]
pub fn text(sizes: &Sizes, width: usize) -> String {
    let mut out = rows(sizes).render_to(width);
    out.push('\n');
    push_wrapped_to(&mut out, width, "", &answer_text(sizes));
    out
}

/// A row for each size and time.
#[must_use]
pub fn rows(sizes: &Sizes) -> Noted {
    let right = ["size", "time", "runs", "IOPS", "from device"];
    let mut columns: Vec<(&str, Align)> = right.map(|title| (title, Align::Right)).into();
    columns.extend([("", Align::Left), ("against the reference", Align::Left)]);
    let mut table = Table::new(columns, 2);
    for cell in &sizes.cells {
        let is_answer = !cell.is_part && sizes.answer == Some((cell.size_bytes, cell.duration_ns));
        table.row_with_remark(cells(cell), if is_answer { "<- small enough" } else { "" });
    }
    let mut notes = Vec::new();
    if sizes.cells.iter().any(|cell| cell.is_part) {
        let note = "* the first part of the reference runs: shows which time is worth measuring, and decides nothing.";
        notes.push(note.to_owned());
    }
    Noted { table, notes }
}

fn cells(cell: &Cell) -> [String; 7] {
    let time = format_duration(cell.duration_ns);
    [
        format_size(cell.size_bytes),
        if cell.is_part { format!("*{time}") } else { time },
        cell.iops.count.to_string(),
        iops_text(cell.iops.value),
        cell.from_device.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0)),
        word(cell.outcome).to_owned(),
        cell.reason.clone(),
    ]
}

/// What people read for it.
#[must_use]
pub fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Reference => "reference",
        Outcome::Agrees => "agrees",
        Outcome::Cache | Outcome::Differs => "rejected",
        Outcome::TooNoisy | Outcome::TooFew => "unknown",
    }
}

/// Which size and time are enough.
#[must_use]
pub fn answer_text(sizes: &Sizes) -> String {
    let margin = format!("{} %", (sizes.margin * 1e4).round() / 100.0);
    let Some((size_bytes, duration_ns)) = sizes.answer else {
        return format!(
            "No smaller set, and no shorter run of its own, agrees with the reference within {margin}: use the reference \
             itself, a wider --margin=, or more --time= where runs were too few or too noisy."
        );
    };
    let rejected = sizes.rejected.and_then(|at| sizes.cells.get(at));
    let next = rejected.map_or_else(String::new, |cell| {
        let size = format_size(cell.size_bytes);
        let what = word(cell.outcome);
        format!(" The next smaller that was tried, {size}, is {what}: {}.", cell.reason)
    });
    let gap = if sizes.gap().is_some() {
        " For sizes between the two the time was too short: --time= allows more."
    } else {
        ""
    };
    format!(
        "{} for {} is enough: no difference larger than {margin} from the reference, as for all larger sets (interval of \
         90 %, so that a larger difference is missed in at most 5 % of such claims).{next}{gap}",
        format_size(size_bytes),
        format_duration(duration_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::WIDTH;
    use expect_test::expect;
    use fathom_stats::interval::Estimate;

    fn cell(mib: u64, seconds: u64, iops: f64, outcome: Outcome, reason: &str) -> Cell {
        Cell {
            size_bytes: mib << 20,
            duration_ns: seconds * 1_000_000_000,
            is_part: false,
            iops: Estimate { value: iops, interval: None, count: 4 },
            ratio: None,
            from_device: Some(if outcome == Outcome::Cache { 0.42 } else { 1.0 }),
            outcome,
            reason: reason.into(),
        }
    }

    #[test]
    fn the_whole_answer() {
        let part = Cell {
            is_part: true,
            from_device: None,
            ..cell(4096, 5, 775.0, Outcome::Agrees, "-0.3 % (-1.4 to +1.0 %)")
        };
        let mut sizes = Sizes {
            cells: vec![
                cell(4096, 20, 777.0, Outcome::Reference, "the runs lie 1.4 % apart"),
                part,
                cell(4096, 5, 774.0, Outcome::Agrees, "-0.4 % (-2.0 to +0.9 %)"),
                cell(1024, 5, 790.0, Outcome::Agrees, "+1.7 % (+0.5 to +3.1 %)"),
                cell(
                    256,
                    5,
                    1310.0,
                    Outcome::Cache,
                    "cache: 58 % of what was read did not come from the device",
                ),
                cell(
                    64,
                    5,
                    1500.0,
                    Outcome::TooNoisy,
                    "+2.0 % (-9.0 to +15.0 %): too wide for a margin of 5 %",
                ),
            ],
            margin: 0.05,
            answer: Some((1 << 30, 5_000_000_000)),
            rejected: Some(4),
        };
        expect![[r#"
               size  time  runs   IOPS  from device             against the reference
              4 GiB  20 s     4    777        100 %  reference  the runs lie 1.4 % apart
              4 GiB  *5 s     4    775               agrees     -0.3 % (-1.4 to +1.0 %)
              4 GiB   5 s     4    774        100 %  agrees     -0.4 % (-2.0 to +0.9 %)
              1 GiB   5 s     4    790        100 %  agrees     +1.7 % (+0.5 to +3.1 %)
                <- small enough
            256 MiB   5 s     4  1 310         42 %  rejected   cache: 58 % of what was read did not come from the device
             64 MiB   5 s     4  1 500        100 %  unknown    +2.0 % (-9.0 to +15.0 %): too wide for a margin of 5 %
              * the first part of the reference runs: shows which time is worth measuring, and decides nothing.

            1 GiB for 5 s is enough: no difference larger than 5 % from the reference, as for all larger sets (interval of
            90 %, so that a larger difference is missed in at most 5 % of such claims). The next smaller that was tried,
            256 MiB, is rejected: cache: 58 % of what was read did not come from the device. For sizes between the two the
            time was too short: --time= allows more.
        "#]].assert_eq(&text(&sizes, WIDTH));
        sizes.answer = None;
        assert!(
            text(&sizes, WIDTH)
                .contains("agrees with the reference within 5 %: use the reference itself")
        );
    }
}
