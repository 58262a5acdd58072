//! What an experiment would do, before anything is touched.

use super::words;
use crate::table::{Align, Table};
use crate::text::push_wrapped_to;
use fathom_base::units::{format_duration, format_size};
use fathom_model::plan::outline::{Act, CellOutline, ImpossibleCell, Outline};

/// The outline of a plan, in lines of `width` columns; commands are never broken.
#[must_use]
pub fn text(outline: &Outline, width: usize) -> String {
    let mut out = String::new();
    push_wrapped_to(&mut out, width, "", &format!("{}: {}", outline.name, outline.question));
    push_wrapped_to(&mut out, width, "", &format!("Target: {}", outline.target));
    out.push('\n');
    out += &cells(outline, width);
    out += &impossible(&outline.impossible, width);
    order(outline, &mut out, width);
    cost(outline, &mut out, width);
    out += &acts("Once, before the first trial (taken back at the end):", &outline.around);
    out += &acts("Before each trial:", &outline.before_each);
    let common = common_builds(&outline.cells);
    out += &acts("Built for every cell:", common);
    for cell in &outline.cells {
        out += &of_cell(cell, !common.is_empty());
    }
    list(&mut out, width, "Cannot be put back exactly:", &outline.unrestorable);
    list(&mut out, width, "To be known:", &outline.notes);
    let in_all = outline.boots_in_all.map(|boots| {
        format!(
            " ({boots} in all, because every block goes through them: one alone proves nothing)"
        )
    });
    let boots = format!("Needs other boots{}:", in_all.unwrap_or_default());
    list(&mut out, width, &boots, &outline.boots);
    // Where something is in the way, not everything was looked at.
    if outline.destroyed.is_empty() && outline.refusals.is_empty() {
        out += "\nNothing is destroyed.\n";
    }
    list(&mut out, width, "DESTROYED, everything on:", &outline.destroyed);
    list(&mut out, width, "REFUSED as it stands:", &outline.refusals);
    out
}

fn cells(outline: &Outline, width: usize) -> String {
    let mut columns = vec![
        ("", Align::Right),
        ("cell", Align::Left),
        ("workloads", Align::Left),
        ("beside it", Align::Left),
    ];
    let has_capacity = outline.cells.iter().any(|cell| cell.capacity.is_some());
    if has_capacity {
        columns.extend(words::CAPACITY.map(|title| (title, Align::Right)));
    }
    columns.push(("one trial", Align::Right));
    let mut table = Table::new(columns, 2);
    // What is the same in all cells is said once.
    let first = outline.cells.first().map(|cell| &cell.workloads);
    let is_same =
        outline.cells.len() > 1 && outline.cells.iter().all(|c| Some(&c.workloads) == first);
    for cell in &outline.cells {
        let mut row = vec![
            (cell.index + 1).to_string(),
            cell.name.clone(),
            if is_same { String::new() } else { cell.workloads.join("; ") },
            cell.companion.clone().unwrap_or_default(),
        ];
        if has_capacity {
            row.extend(words::capacity(cell.capacity.as_ref()));
        }
        row.push(format_duration(cell.trial_ns));
        table.row(row);
    }
    let mut out = table.render_to(0, width);
    if let Some(workloads) = first.filter(|_| is_same) {
        for workload in workloads {
            push_wrapped_to(&mut out, width, "", &format!("Load: {workload}"));
        }
    }
    if has_capacity {
        push_wrapped_to(&mut out, width, "", words::CAPACITY_LEGEND);
    }
    out
}

/// Cells that cannot exist, those of one reason together; nothing where there are none.
#[must_use]
pub fn impossible(cells: &[ImpossibleCell], width: usize) -> String {
    let mut out = String::new();
    let mut said: Vec<&str> = Vec::new();
    for cell in cells {
        if said.contains(&cell.reason.as_str()) {
            continue;
        }
        said.push(&cell.reason);
        let alike = cells.iter().filter(|other| other.reason == cell.reason).count();
        let more = if alike > 1 { format!(" and {} more", alike - 1) } else { String::new() };
        let (number, name) = (cell.index + 1, &cell.name);
        let line = format!("n/a: {}: cell {number} ({name}){more}", cell.reason);
        push_wrapped_to(&mut out, width, "", &line);
    }
    out
}

fn order(outline: &Outline, out: &mut String, width: usize) {
    let place = |slot: &fathom_model::plan::cell::Slot| {
        let mark = if slot.is_sentinel { "s" } else { "" };
        format!("{}{mark}", slot.cell + 1)
    };
    let first: Vec<String> = outline.first_block.iter().map(place).collect();
    let has_sentinel = outline.first_block.iter().any(|slot| slot.is_sentinel);
    let sentinel = if has_sentinel { " (s: the sentinel)" } else { "" };
    let text = format!(
        "At most {} of {}, {} in all; order of the first block: {}{sentinel}.",
        words::count(outline.blocks as usize, "block", "blocks"),
        words::count(first.len(), "trial", "trials"),
        words::count(outline.trials as usize, "trial", "trials"),
        first.join(" ")
    );
    push_wrapped_to(out, width, "", &text);
    if outline.further_levels > 0 {
        let text = format!(
            "Then at most {} by halving, each in {} of up to 4 trials: {} more.",
            words::count(outline.further_levels as usize, "further level", "further levels"),
            words::count(outline.blocks as usize, "block", "blocks"),
            words::count(outline.further_trials as usize, "trial", "trials"),
        );
        push_wrapped_to(out, width, "", &text);
    }
}

fn cost(outline: &Outline, out: &mut String, width: usize) {
    let time = format_duration(outline.time_ns);
    let time_max = outline.time_ns_max.map(|ns| format!(" ({} allowed)", format_duration(ns)));
    let written = match outline.written_bytes {
        Some(0) if outline.has_commands => "only the commands write".to_owned(),
        Some(0) => "nothing is written".to_owned(),
        Some(bytes) => format!("about {} are written to devices", format_size(bytes)),
        None => "how much is written cannot be told beforehand".to_owned(),
    };
    let commands = match outline.written_bytes {
        Some(0) => "",
        _ if outline.has_commands => ", and what the commands write",
        _ => "",
    };
    let files = match outline.written_bytes {
        _ if !outline.has_test_files => String::new(),
        Some(0) => " but test files".to_owned(),
        _ if outline.test_file_bytes > 0 => {
            format!(", with test files of {}", format_size(outline.test_file_bytes))
        }
        _ => ", test files beside".to_owned(),
    };
    let and_commands =
        if outline.has_untimed { " and the time that the commands take" } else { "" };
    let written_max = outline.written_bytes_max.map(|b| format!(" ({} allowed)", format_size(b)));
    let about = if outline.further_levels > 0 { "At most about" } else { "About" };
    let text = format!(
        "{about} {time}{}{and_commands} and waits for quiet devices; {written}{files}{commands}{}.",
        time_max.unwrap_or_default(),
        written_max.unwrap_or_default()
    );
    push_wrapped_to(out, width, "", &text);
}

fn line(act: &Act) -> String {
    let right = act.privilege.as_ref().map_or_else(String::new, |right| format!("   ({right})"));
    format!("{}{right}", act.text)
}

fn acts(title: &str, acts: &[Act]) -> String {
    if acts.is_empty() {
        return String::new();
    }
    let lines: String = acts.iter().map(|act| format!("  {}\n", line(act))).collect();
    format!("\n{title}\n{lines}")
}

/// What is built alike for all of several cells; nothing when they differ.
fn common_builds(cells: &[CellOutline]) -> &[Act] {
    match cells {
        [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|c| c.builds == first.builds) => {
            &first.builds
        }
        _ => &[],
    }
}

/// What is built, where that was not said for all, and written for one cell.
fn of_cell(cell: &CellOutline, is_build_said: bool) -> String {
    let builds = if is_build_said { &[] } else { cell.builds.as_slice() };
    if builds.is_empty() && cell.writes.is_empty() {
        return String::new();
    }
    let mut out = format!("\nCell {} ({}):\n", cell.index + 1, cell.name);
    for act in builds {
        out += &format!("  {}\n", line(act));
    }
    for write in &cell.writes {
        let value = match &write.old {
            Some(old) if *old == write.new => format!("{old} (as it is)"),
            Some(old) => format!("{old} -> {}", write.new),
            None => write.new.clone(),
        };
        let right =
            write.privilege.as_ref().map_or_else(String::new, |right| format!("   ({right})"));
        out += &format!("  {} of {}: {value}{right}\n", write.knob, write.place);
    }
    out
}

fn list(out: &mut String, width: usize, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    *out += &format!("\n{title}\n");
    for line in lines.iter().flat_map(|line| line.lines()) {
        push_wrapped_to(out, width, "  ", line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use fathom_model::plan::cell::Slot;
    use fathom_model::plan::outline::Write;
    use fathom_model::plan::setup::SetupCapacity;

    fn outline() -> Outline {
        let cell = |index: u32, scheduler: &str| CellOutline {
            index,
            name: format!("scheduler={scheduler}"),
            builds: Vec::new(),
            capacity: None,
            writes: vec![Write {
                knob: "block.scheduler".into(),
                place: "sda".into(),
                old: Some("none".into()),
                new: scheduler.into(),
                privilege: Some("root".into()),
            }],
            workloads: vec!["randread depth=32, 60 s".into()],
            companion: None,
            trial_ns: 63_000_000_000,
        };
        let slot = |place, cell, is_sentinel| Slot { block: 0, place, cell, is_sentinel };
        let act = |text: &str, privilege: Option<&str>| Act {
            text: text.into(),
            privilege: privilege.map(str::to_owned),
        };
        Outline {
            name: "scheduler".into(),
            question: "Which scheduler suits sda?".into(),
            target: "/dev/sda (WDC WD10EACS, 931.5 GiB)".into(),
            cells: vec![cell(0, "none"), cell(1, "bfq")],
            impossible: Vec::new(),
            first_block: vec![slot(0, 0, true), slot(1, 1, false), slot(2, 0, false)],
            blocks: 8,
            trials: 24,
            further_levels: 0,
            further_trials: 0,
            around: vec![act("swapoff -a", Some("root"))],
            before_each: vec![act("sync; drop caches", Some("root"))],
            destroyed: vec!["wwn-0x5000 (/dev/sda)".into()],
            unrestorable: vec![
                "block.wbt_lat_usec of sda: counts as set by hand afterwards".into(),
            ],
            notes: Vec::new(),
            refusals: vec!["/dev/sda: mounted at /srv\numount /srv".into()],
            time_ns: 1_600_000_000_000,
            time_ns_max: Some(3_600_000_000_000),
            written_bytes: Some(1 << 30),
            has_test_files: false,
            test_file_bytes: 0,
            has_commands: false,
            has_untimed: false,
            written_bytes_max: Some(10 << 30),
            boots: Vec::new(),
            boots_in_all: None,
        }
    }

    #[test]
    fn everything_that_would_be_done() {
        expect![[r#"
            scheduler: Which scheduler suits sda?
            Target: /dev/sda (WDC WD10EACS, 931.5 GiB)

               cell             one trial
            1  scheduler=none  1 min 03 s
            2  scheduler=bfq   1 min 03 s
            Load: randread depth=32, 60 s
            At most 8 blocks of 3 trials, 24 trials in all; order of the first block: 1s 2 1 (s: the sentinel).
            About 26 min 40 s (1 h 00 min allowed) and waits for quiet devices; about 1 GiB are written to
            devices (10 GiB allowed).

            Once, before the first trial (taken back at the end):
              swapoff -a   (root)

            Before each trial:
              sync; drop caches   (root)

            Cell 1 (scheduler=none):
              block.scheduler of sda: none (as it is)   (root)

            Cell 2 (scheduler=bfq):
              block.scheduler of sda: none -> bfq   (root)

            Cannot be put back exactly:
              block.wbt_lat_usec of sda: counts as set by hand afterwards

            DESTROYED, everything on:
              wwn-0x5000 (/dev/sda)

            REFUSED as it stands:
              /dev/sda: mounted at /srv
              umount /srv
        "#]].assert_eq(&text(&outline(), 100));
    }

    #[test]
    fn what_all_cells_share_is_said_once() {
        let mkfs = Act { text: "mkfs.ext4 /dev/loop0".into(), privilege: Some("root".into()) };
        let mut outline = Outline { has_test_files: true, written_bytes: Some(0), ..outline() };
        for cell in &mut outline.cells {
            cell.builds = vec![mkfs.clone()];
        }
        let shared = text(&outline, 200);
        assert!(shared.contains("nothing is written but test files ("), "{shared}");
        assert!(
            shared.contains("\nBuilt for every cell:\n  mkfs.ext4 /dev/loop0   (root)\n\nCell 1")
        );
        assert_eq!(shared.matches("mkfs").count(), 1);
        outline.cells[1].builds.clear();
        outline.written_bytes = Some(1 << 30);
        let own = text(&outline, 200);
        assert!(own.contains("written to devices, test files beside (10 GiB"), "{own}");
        outline.test_file_bytes = 2 << 30;
        let large = text(&outline, 200);
        assert!(large.contains("written to devices, with test files of 2 GiB (10 GiB"), "{large}");
        assert!(
            own.contains("Cell 1 (scheduler=none):\n  mkfs.ext4") && !own.contains("every cell")
        );
    }

    /// What of unlike disks can be used differs from cell to cell.
    #[test]
    fn how_much_can_be_used() {
        let mut outline = outline();
        assert!(!text(&outline, 100).contains("usable"));
        let of = |usable_mib: u64, wasted_mib: u64| SetupCapacity {
            devices_bytes: 240 << 20,
            usable_bytes: usable_mib << 20,
            wasted_bytes: wasted_mib << 20,
        };
        outline.cells[0].capacity = Some(of(236, 0));
        outline.cells[1].capacity = Some(of(141, 48));
        let told = text(&outline, 100);
        let lines: Vec<&str> = told.lines().skip(3).take(3).collect();
        let expected = [
            "   cell             usable  wasted   one trial",
            "1  scheduler=none  236 MiB     0 B  1 min 03 s",
            "2  scheduler=bfq   141 MiB  48 MiB  1 min 03 s",
        ];
        assert_eq!(lines, expected, "{told}");
        assert!(
            told.contains("\nusable: what the setup holds of its devices; wasted: what"),
            "{told}"
        );
    }

    #[test]
    fn commands_take_and_write_what_nobody_knows() {
        let known = Outline { has_commands: true, written_bytes: Some(0), ..outline() };
        let only = text(&known, 200);
        assert!(
            only.contains("(1 h 00 min allowed) and waits for quiet devices; only the commands")
        );
        let commands = Outline { has_untimed: true, ..known };
        let only = text(&commands, 200);
        assert!(
            only.contains("(1 h 00 min allowed) and the time that the commands take and waits for quiet devices; only the commands write ("),
            "{only}"
        );
        let both = text(&Outline { written_bytes: Some(1 << 30), ..commands }, 200);
        assert!(both.contains("to devices, and what the commands write (10 GiB"), "{both}");
    }

    #[test]
    fn what_cannot_be_is_told_once_for_each_reason() {
        let cell = |index: u32, name: &str, reason: &str| {
            let (name, reason) = (name.to_owned(), reason.to_owned());
            ImpossibleCell { index, name, reason }
        };
        let impossible = vec![
            cell(2, "level=raid0 state=degraded", "raid0 is never degraded"),
            cell(4, "level=raid5 chunk=3k", "3k is no power of two"),
            cell(5, "level=raid6 chunk=3k", "3k is no power of two"),
        ];
        let told = text(&Outline { impossible, ..outline() }, 200);
        let lines = "\nn/a: raid0 is never degraded: cell 3 (level=raid0 state=degraded)\n\
            n/a: 3k is no power of two: cell 5 (level=raid5 chunk=3k) and 1 more\nAt most 8 blocks";
        assert!(told.contains(lines), "{told}");
    }

    #[test]
    fn boots_are_counted() {
        let boots = vec!["mem=2G on the kernel's command line".to_owned()];
        let told = text(&Outline { boots, boots_in_all: Some(13), ..outline() }, 200);
        assert!(told.contains("\nNeeds other boots (13 in all, because"), "{told}");
    }

    #[test]
    fn a_refused_one_promises_nothing() {
        let refused = text(&Outline { destroyed: Vec::new(), ..outline() }, 80);
        assert!(!refused.contains("Nothing is destroyed") && refused.contains("REFUSED"));
    }

    #[test]
    fn a_harmless_one_says_so() {
        let harmless = Outline { destroyed: Vec::new(), refusals: Vec::new(), ..outline() };
        let text = text(&harmless, 80);
        assert!(text.contains("\nNothing is destroyed.\n") && !text.contains("REFUSED"));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
