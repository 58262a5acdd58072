//! Markdown as it is pasted.

use super::*;
use crate::page::{ChartKind, Section};
use expect_test::expect;
use fathom_model::finding::Verdict;
use fathom_model::stack::{Node, NodeKind, Stack};

fn page() -> Page {
    let mut table = Table::new(
        "Cells",
        [Column::left("cell"), Column::right("rate").unit("MB/s"), Column::left("nothing")],
    );
    table.row_with_remark([Cell::from("a|b"), Cell::number("1.5", 1.5)], "<- best");
    table.row([Cell::from("x_y"), Cell::number("1.0", 1.0)]);
    table.notes.push("Medians over trials.".into());
    let points = vec![Point::between(0.0, 1.5e6, 1.4e6, 1.6e6), Point::new(1.0, 0.9e6)];
    let bars = Chart::new(
        "Best cells",
        ChartKind::Bars,
        Axis::names("cell", ["a|b", "x_y"]),
        Axis::new("p99", Unit::Nanoseconds),
    )
    .series("p99", points)
    .n("n = 8 trials")
    .interval("95 % interval of the median");
    let long = Chart::new(
        "Every trial",
        ChartKind::Scatter,
        Axis::new("time", Unit::Seconds),
        Axis::new("rate", Unit::BytesPerSecond),
    )
    .series("a", (0..100).map(|x| Point::new(f64::from(x), 1.0)).collect());
    Page {
        title: "experiment 7f3k on /srv/data".into(),
        question: "Which is faster?".into(),
        answer: "Best: a|b: 1.5 MB/s, +50.0 % (+40.0 to +60.0 %).".into(),
        verdict: Some(Verdict::Doubtful),
        first: vec![
            Block::Findings(vec![
                Finding::new("n", Severity::Note, "worth knowing"),
                Finding::new("x", Severity::Doubtful, "md10 is <busy>")
                    .advise("echo idle > /sys/x"),
            ]),
            Block::Stack(Box::new(Stack {
                path: "/srv".into(),
                resolved_path: "/srv".into(),
                nodes: vec![Node::new(NodeKind::Mount, "/srv")],
                top: 0,
            })),
            Block::Command { caption: "set it now".into(), command: "echo `x` > /sys/y".into() },
        ],
        sections: vec![
            Section::new("Cells", "How to read it.").block(table).block(bars).block(long),
        ],
    }
}

#[test]
fn a_whole_page() {
    expect![[r#"
        <!-- <meta name="generator" content="fathom report"> -->
        # Which is faster?

        **Best: a\|b: 1.5 MB/s, +50.0 % (+40.0 to +60.0 %).**

        Verdict: **DOUBTFUL**. experiment 7f3k on /srv/data

        - **doubtful**: md10 is &lt;busy&gt;
          - echo idle &gt; /sys/x
        - note: worth knowing

        ```
        /srv
        ```

        set it now:

        ```sh
        echo `x` > /sys/y
        ```

        ## Cells

        How to read it.

        **Cells**

        | cell | rate [MB/s] |  |
        | --- | ---: | --- |
        | a\|b | 1.5 | &lt;- best |
        | x\_y | 1.0 |  |

        Medians over trials.

        <details><summary>Best cells (n = 8 trials)</summary>

        | cell | p99 | interval |
        | --- | ---: | ---: |
        | a\|b | 1.5 ms | 1.4 to 1.6 ms |
        | x\_y | 900 us |  |

        95 % interval of the median

        </details>

        **Every trial**: 100 points, drawn in the HTML report.
    "#]]
    .assert_eq(&markdown(&page()));
}

/// Labels, paths and programs' output are anybody's.
#[test]
fn nothing_in_a_record_means_anything_to_markdown() {
    let bad = "# a\n[x](javascript:y) <img src=z> @all #12 `c` *d* _e_ | $f$ ~g~ \u{1b}[31m &lt;";
    let mut page = page();
    page.question = bad.into();
    page.first = vec![Block::Text(bad.into()), Block::Plain("```\n</details>\n````".into())];
    page.sections.clear();
    expect![[r#"
        <!-- <meta name="generator" content="fathom report"> -->
        # # a \[x\](javascript:y) &lt;img src=z&gt; @<!-- -->all #<!-- -->12 \`c\` \*d\* \_e\_ \| \$f\$ \~g\~ ?\[31m &amp;lt;

        **Best: a\|b: 1.5 MB/s, +50.0 % (+40.0 to +60.0 %).**

        Verdict: **DOUBTFUL**. experiment 7f3k on /srv/data

        \# a \[x\](javascript:y) &lt;img src=z&gt; @<!-- -->all #<!-- -->12 \`c\` \*d\* \_e\_ \| \$f\$ \~g\~ ?\[31m &amp;lt;

        `````
        ```
        </details>
        ````
        `````
    "#]].assert_eq(&markdown(&page));
}

#[test]
fn long_tables_are_cut_and_say_so() {
    let mut table = Table::new("", [Column::right("n")]);
    (0..1000).for_each(|n| table.row([n.to_string()]));
    let mut out = String::new();
    push_table(&mut out, &table);
    assert_eq!(out.lines().filter(|line| line.starts_with("| ")).count(), ROWS_MAX + 2);
    assert!(out.contains("The first 200 of 1000 rows"), "{out}");
}
