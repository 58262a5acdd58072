//! The list of stored runs.

use crate::table::{Align, Table};
use crate::text::format_time;
use jiff::tz::TimeZone;

/// One stored run, as far as the list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRow<'a> {
    /// The shortest prefix that names it.
    pub prefix: &'a str,
    /// Start, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// `quick`, `run`, ...
    pub kind: &'a str,
    /// The target as given.
    pub target: &'a str,
    /// The user's own word for it.
    pub label: Option<&'a str>,
    /// Records stored.
    pub trials: u32,
    /// `complete`, `partial`, ...
    pub state: &'a str,
    /// `TRUSTED`, ...; none while it runs.
    pub verdict: Option<&'a str>,
}

/// Stored runs as a table in lines of `width` columns; one line of text when there are none.
#[must_use]
pub fn list_table(rows: &[ListRow<'_>], zone: &TimeZone, width: usize) -> String {
    if rows.is_empty() {
        return "no runs\n".to_owned();
    }
    let mut table = Table::new(
        [
            ("run", Align::Left),
            ("started", Align::Left),
            ("kind", Align::Left),
            ("trials", Align::Right),
            ("state", Align::Left),
            ("verdict", Align::Left),
            ("label", Align::Left),
            ("target", Align::Left),
        ],
        2,
    );
    for row in rows {
        table.row([
            row.prefix.to_owned(),
            format_time(row.started_unix_ns, zone),
            row.kind.to_owned(),
            row.trials.to_string(),
            row.state.to_owned(),
            row.verdict.unwrap_or_default().to_owned(),
            row.label.unwrap_or_default().to_owned(),
            row.target.to_owned(),
        ]);
    }
    table.render_to(0, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn runs_with_and_without_labels() {
        let quick = ListRow {
            prefix: "7f3k",
            started_unix_ns: 1_795_230_000_000_000_000,
            kind: "quick",
            target: "/srv/data",
            label: None,
            trials: 7,
            state: "complete",
            verdict: Some("DOUBTFUL"),
        };
        let run = ListRow {
            prefix: "9xxxy",
            kind: "run",
            label: Some("before-upgrade"),
            trials: 1,
            state: "partial",
            verdict: None,
            ..quick.clone()
        };
        expect![[r#"
            run    started                     kind   trials  state     verdict   label           target
            7f3k   2026-11-21 03:00:00 +00:00  quick       7  complete  DOUBTFUL                  /srv/data
            9xxxy  2026-11-21 03:00:00 +00:00  run         1  partial             before-upgrade  /srv/data
        "#]].assert_eq(&list_table(&[quick.clone(), run], &TimeZone::UTC, crate::text::WIDTH));
        expect![[r#"
            run   started                     kind   trials  state     verdict   target
            7f3k  2026-11-21 03:00:00 +00:00  quick       7  complete  DOUBTFUL  /srv/data
        "#]]
        .assert_eq(&list_table(&[quick], &TimeZone::UTC, crate::text::WIDTH));
        assert_eq!(list_table(&[], &TimeZone::UTC, crate::text::WIDTH), "no runs\n");
    }
}
