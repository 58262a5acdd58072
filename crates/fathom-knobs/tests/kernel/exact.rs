//! Every setting of a queue to a few of its values and back, with everything else in the queue as before.

use crate::machine::{Journal, assert_same, drifted, knobs, on_device, scope_device, state};
use fathom_knobs::knob::{Group, Home, Knob, Values};
use fathom_knobs::legal::listed;
use fathom_knobs::{KnobError, Scope, Undo, Wait, all, apply, resolve, undo, unrestorable};
use fathom_model::change::Change;
use fathom_model::change::knob::{KnobChange, KnobPlace};
use fathom_model::plan::OwnKnob;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::{LoopDevice, counted};
use std::fs;

/// A few values that the setting may have.
fn samples(knob: &Knob, place: &KnobPlace) -> Vec<String> {
    let numbers = |values: &[i64]| values.iter().map(ToString::to_string).collect();
    match knob.values {
        Values::Switch => numbers(&[0, 1]),
        Values::Number(min, max) => numbers(&[min, 8, 100, max.min(3000)]),
        Values::UpTo(min, _) => numbers(&[min, 64, 512]),
        Values::Requests => numbers(&[4, 31, 128]),
        Values::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Values::Listed => listed(&SysRoot::live(), place, knob),
        _ => Vec::new(),
    }
}

/// Each setting of the queue, under each scheduler, to a few values; then back, with every file compared.
pub fn every_setting() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let root = SysRoot::live();
    let place = scope_device(&device).place();
    let mut tried = 0;
    for scheduler in listed(&root, &place, fathom_knobs::find("block.scheduler").unwrap()) {
        let mut outer = Journal::new();
        outer.apply(&on_device(&device, &[("block.scheduler", &scheduler)]).unwrap()).unwrap();
        let before = state(&device);
        for knob in
            all().iter().filter(|k| k.is_set() && matches!(k.group, Group::Queue | Group::Bdi))
        {
            if let Home::Scheduler(of, _) = knob.home
                && of != scheduler
            {
                continue;
            }
            for value in samples(knob, &place) {
                let settings = match on_device(&device, &[(knob.id, &value)]) {
                    Ok(settings) => settings,
                    // Out of this device's range, or nothing that it has.
                    Err(KnobError::Value { .. } | KnobError::Nowhere { .. }) => continue,
                    Err(error) => panic!("{} = {value}: {error}", knob.id),
                };
                let mut journal = Journal::new();
                let done = journal.apply(&settings);
                // A kernel may lack a value that others have.
                if let Err(error) = &done {
                    assert!(
                        matches!(error, KnobError::Write { .. }),
                        "{} = {value}: {error}",
                        knob.id
                    );
                } else {
                    assert_eq!(drifted(&settings, &[]), [], "{} = {value}", knob.id);
                    tried += 1;
                }
                let outcomes = journal.undo_all(false);
                assert!(outcomes.iter().all(Undo::is_done), "{} = {value}: {outcomes:?}", knob.id);
                assert_same(
                    &before,
                    &state(&device),
                    &format!("{scheduler}: {} = {value}", knob.id),
                );
                assert_eq!(journal.undo_all(false), [], "twice");
            }
        }
        assert!(outer.undo_all(false).iter().all(Undo::is_done));
    }
    counted("settings of a queue set and put back", tried);
    assert!(tried > 100, "{tried}");
}

/// What the table says about couplings is what this kernel does.
pub fn couplings() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let mut journal = Journal::new();
    let mut set =
        |pairs: &[(&str, &str)]| journal.apply(&on_device(&device, pairs).unwrap()).unwrap();
    // All at once, in an order that the names do not have: each must hold in the end.
    set(&[
        ("block.read_ahead_kb", "0"),
        ("block.max_sectors_kb", "256"),
        ("block.iostats", "0"),
        ("block.nr_requests", "77"),
        ("mq-deadline.async_depth", "13"),
        ("block.scheduler", "mq-deadline"),
        ("block.wbt_lat_usec", "0"),
    ]);
    let queue = |name: &str| state(&device)[&format!("queue/{name}")].trim().to_owned();
    assert_eq!(queue("read_ahead_kb"), "0");
    assert_eq!(queue("nr_requests"), "77");
    assert_eq!(queue("iosched/async_depth"), "13");
    // Nobody asked for another read-ahead: a limit does not raise it.
    set(&[("block.max_sectors_kb", "512")]);
    assert_eq!(queue("read_ahead_kb"), "0");
    // One request at a time raises the idling of bfq; both are wanted.
    set(&[
        ("block.scheduler", "bfq"),
        ("bfq.slice_idle_us", "1500"),
        ("bfq.strict_guarantees", "1"),
    ]);
    assert_eq!(
        (queue("iosched/slice_idle_us"), queue("iosched/strict_guarantees")),
        ("1500".into(), "1".into())
    );
    // A new scheduler resets the number of requests, and it is said.
    let done = set(&[("block.scheduler", "none")]);
    assert!(done[0].note.as_deref().unwrap().contains("block.nr_requests"), "{done:?}");
    // Setting a device to what it is writes nothing and notes nothing.
    let pending = journal.log.pending().len();
    journal.apply(&on_device(&device, &[("block.scheduler", "none")]).unwrap()).unwrap();
    assert_eq!(journal.log.pending().len(), pending);
    assert!(journal.undo_all(false).iter().all(Undo::is_done));
    assert_same(&before, &state(&device), "couplings");
}

/// The kernel's own clamps: told when they are known, refused when they would make something else of the value.
pub fn clamps() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let mut journal = Journal::new();
    let mut note = |pairs: &[(&str, &str)]| {
        let done = journal.apply(&on_device(&device, pairs).unwrap()).unwrap();
        done.last().unwrap().note.clone().unwrap_or_default()
    };
    assert!(note(&[("block.read_ahead_kb", "101")]).contains("rounds 101 to 100"));
    let tick = note(&[("block.scheduler", "mq-deadline"), ("mq-deadline.read_expire", "501")]);
    assert!(tick.is_empty() || tick.contains("rounds 501"), "{tick}");
    assert!(note(&[("block.wbt_lat_usec", "-1")]).contains("stands for"));
    assert!(note(&[("setra", "2048")]).is_empty());
    assert_eq!(state(&device)["queue/read_ahead_kb"].trim(), "1024");
    let refused = |pairs: &[(&str, &str)]| on_device(&device, pairs).unwrap_err().to_string();
    assert!(refused(&[("block.nr_requests", "3")]).contains("4 to"));
    assert!(
        refused(&[("block.scheduler", "none"), ("block.nr_requests", "100000")])
            .contains("4 to 128")
    );
    assert!(refused(&[("block.max_sectors_kb", "99999")]).contains("4 to 1280 KiB"));
    assert!(refused(&[("block.read_ahead_kb", "3")]).contains("which is 0"));
    assert!(refused(&[("block.scheduler", "cfq")]).contains("today's equivalent is bfq"));
    assert!(refused(&[("block.scheduler", "bfg")]).contains("did you mean 'bfq'"));
    assert!(journal.undo_all(false).iter().all(Undo::is_done));
    assert_same(&before, &state(&device), "clamps");
}

/// What lies about durability, what is only shown, and what could not be put back.
pub fn refused() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let refused =
        |id: &str, value: &str| on_device(&device, &[(id, value)]).unwrap_err().to_string();
    assert!(refused("block.write_cache", "write through").contains("scsi.cache_type"));
    assert!(refused("block.io_poll", "1").contains("nvme.poll_queues"));
    assert!(refused("block.logical_block_size", "4096").contains("property of device"));
    assert!(refused("ext4.barrier", "0").contains("power cut"));
    assert!(refused("block.discard_max_bytes", "0").contains("cannot be '0'"));
    assert!(refused("mq-deadline.fifo_batch", "8").contains("block.scheduler=mq-deadline"));
    assert!(refused("md.stripe_cache_size", "256").contains("does not have it"));
    assert!(refused("block.schedular", "none").contains("did you mean"));
    let said =
        |pairs| unrestorable(&SysRoot::live(), &on_device(&device, pairs).unwrap()).join("\n");
    assert!(said(&[("block.wbt_lat_usec", "1234")]).contains("a later bfq"));
    assert_eq!(said(&[("block.nomerges", "2")]), "");
    assert_same(&before, &state(&device), "refused");
}

/// Settings that fathom knows only by commands.
pub fn own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("value");
    fs::write(&file, "slow\n").unwrap();
    let file = file.display();
    let own = [OwnKnob {
        name: "speed".to_owned(),
        read: format!("cat {file}"),
        write: format!("echo {{value}} > {file}"),
        values: vec!["slow".to_owned(), "fast".to_owned()],
        needs_setup: false,
    }];
    let root = SysRoot::live();
    let scope = Scope { devices: &[], mounts: &[], own: &own };
    let settings = resolve(&root, &scope, &knobs(&[("own.speed", "fast")])).unwrap();
    assert!(resolve(&root, &scope, &knobs(&[("own.speed", "faster")])).is_err());
    assert!(
        resolve(&root, &scope, &knobs(&[("own.sped", "fast")]))
            .unwrap_err()
            .to_string()
            .contains("speed")
    );
    let mut journal = Journal::new();
    apply(&root, &mut journal.log, &settings, &own, &mut Wait::to_the_end(&mut |_| ())).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("value")).unwrap(), "fast\n");
    assert_eq!(drifted(&settings, &own), []);
    fs::write(dir.path().join("value"), "foreign\n").unwrap();
    assert_eq!(drifted(&settings, &own)[0].1.as_deref(), Some("foreign"));
    assert!(matches!(journal.undo_all(false)[..], [Undo::ChangedBySomebody { .. }]));
    assert_eq!(fs::read_to_string(dir.path().join("value")).unwrap(), "foreign\n");
    assert_eq!(journal.undo_all(true), [Undo::Restored]);
    assert_eq!(fs::read_to_string(dir.path().join("value")).unwrap(), "slow\n");
    // After a boot a value that nobody had left is the boot's; what fathom had left is still taken back.
    for (now, expected, then) in
        [("medium\n", Undo::Rebooted, "medium\n"), ("fast\n", Undo::Restored, "slow\n")]
    {
        fs::write(dir.path().join("value"), "slow\n").unwrap();
        apply(&root, &mut journal.log, &settings, &own, &mut Wait::to_the_end(&mut |_| ()))
            .unwrap();
        let Change::Knobs(change) = journal.log.pending().remove(0).change else { panic!() };
        assert!(journal.undo_all(false).iter().all(Undo::is_done));
        let earlier = KnobChange { boot_id: "an earlier boot".to_owned(), ..change };
        fs::write(dir.path().join("value"), now).unwrap();
        let step = journal.log.intend(Change::Knobs(earlier.clone())).unwrap();
        assert_eq!(
            undo(
                &root,
                &mut journal.log,
                step,
                &earlier,
                false,
                &mut Wait::to_the_end(&mut |_| ())
            ),
            expected
        );
        assert_eq!(fs::read_to_string(dir.path().join("value")).unwrap(), then);
        assert!(journal.log.pending().is_empty());
    }
}
