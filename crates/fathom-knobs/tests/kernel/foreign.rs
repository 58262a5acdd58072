//! Somebody else changes the same settings, the machine boots, devices go.

use crate::machine::{Journal, assert_same, drifted, on_device, state};
use fathom_knobs::{Undo, Wait, undo};
use fathom_model::change::Change;
use fathom_model::change::knob::{KnobAt, KnobChange, KnobPlace};
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::LoopDevice;
use std::fs;

fn write(device: &LoopDevice, file: &str, value: &str) {
    fs::write(format!("/sys/block/{}/queue/{file}", device.name()), value).unwrap();
}

fn queue(device: &LoopDevice, file: &str) -> String {
    state(device)[&format!("queue/{file}")].trim().to_owned()
}

/// What somebody else has set since stays; everything else goes back; with force all of it.
pub fn kept() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let mut journal = Journal::new();
    let wanted =
        [("block.nr_requests", "64"), ("block.nomerges", "2"), ("block.read_ahead_kb", "256")];
    journal.apply(&on_device(&device, &wanted).unwrap()).unwrap();
    write(&device, "nr_requests", "32");
    let outcomes = journal.undo_all(false);
    let [Undo::ChangedBySomebody { foreign }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(foreign.len(), 1, "{foreign:?}");
    let one = &foreign[0];
    assert_eq!(
        (one.knob.as_str(), one.left.as_str(), one.now.as_str()),
        ("block.nr_requests", "64", "32")
    );
    assert_eq!(
        (queue(&device, "nr_requests"), queue(&device, "nomerges")),
        ("32".into(), "0".into())
    );
    assert_eq!(state(&device)["queue/read_ahead_kb"], before["queue/read_ahead_kb"]);
    assert_eq!(journal.log.pending().len(), 1);
    assert_eq!(journal.undo_all(true), [Undo::Restored]);
    assert_same(&before, &state(&device), "forced");

    // A scheduler of somebody else's brings its own values: they are not counted as further changes, and stay.
    let wanted = [
        ("block.scheduler", "mq-deadline"),
        ("mq-deadline.fifo_batch", "3"),
        ("block.nomerges", "1"),
    ];
    journal.apply(&on_device(&device, &wanted).unwrap()).unwrap();
    write(&device, "scheduler", "kyber");
    let outcomes = journal.undo_all(false);
    let [Undo::ChangedBySomebody { foreign }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(foreign.iter().map(|f| f.knob.as_str()).collect::<Vec<_>>(), ["block.scheduler"]);
    assert_eq!(
        (queue(&device, "nomerges"), queue(&device, "nr_requests")),
        ("0".into(), "256".into())
    );
    // They put it back themselves: nothing of ours is left.
    write(&device, "scheduler", "none");
    assert!(journal.undo_all(false).iter().all(Undo::is_done));
    assert_same(&before, &state(&device), "put back by them");

    // Somebody took it back to what it was: that is no foreign value.
    journal.apply(&on_device(&device, &[("block.nomerges", "2")]).unwrap()).unwrap();
    write(&device, "nomerges", "0");
    assert_eq!(journal.undo_all(false), [Undo::AlreadyBack]);
}

/// Drift names the setting, both values and the device.
pub fn drift_is_named() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let mut journal = Journal::new();
    let settings =
        on_device(&device, &[("block.read_ahead_kb", "16"), ("block.nomerges", "1")]).unwrap();
    journal.apply(&settings).unwrap();
    assert_eq!(drifted(&settings, &[]), []);
    // A write to another setting, even of the same value, raises the read-ahead: as udev and tuned do it.
    let iostats = queue(&device, "iostats");
    write(&device, "iostats", &iostats);
    let drifted = drifted(&settings, &[]);
    assert_eq!(drifted.len(), 1, "{drifted:?}");
    let (setting, now) = &drifted[0];
    assert_eq!((setting.knob.as_str(), setting.value.as_str()), ("block.read_ahead_kb", "16"));
    assert!(setting.place.name() == device.name() && now.as_deref() != Some("16"), "{drifted:?}");
    let outcomes = journal.undo_all(true);
    assert_eq!(outcomes, [Undo::Restored]);
    assert_same(&before, &state(&device), "drift");
}

/// A change of an earlier boot, of a device that is not there, of a mount that is gone.
pub fn gone() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let mut journal = Journal::new();
    journal.apply(&on_device(&device, &[("block.nomerges", "2")]).unwrap()).unwrap();
    let entry = journal.log.pending().remove(0);
    let Change::Knobs(change) = entry.change else { panic!() };
    let root = SysRoot::live();
    let mut outcome = |change: &KnobChange| {
        let step = journal.log.intend(Change::Knobs(change.clone())).unwrap();
        let outcome =
            undo(&root, &mut journal.log, step, change, false, &mut Wait::to_the_end(&mut |_| ()));
        (outcome, journal.log.pending().iter().any(|entry| entry.step == step))
    };
    let earlier = KnobChange { boot_id: "an earlier boot".to_owned(), ..change.clone() };
    assert_eq!(outcome(&earlier), (Undo::Rebooted, false));
    assert_eq!(queue(&device, "nomerges"), "2");
    let place =
        KnobPlace::Device { id: "naa.5000c50000000000".to_owned(), name: "sdzz".to_owned() };
    let (gone, is_pending) =
        outcome(&KnobChange { place, at: KnobAt::default(), ..change.clone() });
    assert!(matches!(&gone, Undo::Gone(what) if what.contains("sdzz")) && !is_pending, "{gone:?}");
    let place = KnobPlace::Mount { mount_point: "/no/such".into(), device_id: "x".to_owned() };
    let (gone, _) = outcome(&KnobChange { place, at: KnobAt::default(), ..change });
    assert!(matches!(&gone, Undo::Gone(what) if what.contains("/no/such")), "{gone:?}");
    assert_eq!(journal.undo_all(false), [Undo::Restored]);
    assert_same(&before, &state(&device), "gone");
}

/// A change that stays in the journal, because somebody has changed a part of it, does not undo for ever what is changed later.
pub fn kept_for_good() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let mut journal = Journal::new();
    let wanted =
        [("block.nr_requests", "64"), ("block.nomerges", "2"), ("block.read_ahead_kb", "256")];
    journal.apply(&on_device(&device, &wanted).unwrap()).unwrap();
    write(&device, "nr_requests", "32");
    assert!(matches!(journal.undo_all(false)[..], [Undo::ChangedBySomebody { .. }]));
    // Back since then, and changed again by an administrator, in whose way every later start would be.
    write(&device, "read_ahead_kb", "512");
    let outcomes = journal.undo_all(false);
    let [Undo::ChangedBySomebody { foreign }] = &outcomes[..] else { panic!("{outcomes:?}") };
    let names: Vec<&str> = foreign.iter().map(|f| f.knob.as_str()).collect();
    assert_eq!(names, ["block.nr_requests", "block.read_ahead_kb"]);
    assert_eq!(
        (queue(&device, "read_ahead_kb"), queue(&device, "nr_requests")),
        ("512".into(), "32".into())
    );
    assert_eq!(journal.undo_all(true), [Undo::Restored]);
    assert_same(&before, &state(&device), "forced");
}

/// Killed before or after the write, of which nobody knows: what is neither of both values is somebody's.
pub fn kept_though_only_begun() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let before = state(&device);
    let mut journal = Journal::new();
    for (file, ours, theirs) in
        [("nomerges", "2", "1"), ("scheduler", "mq-deadline", "kyber"), ("rq_affinity", "2", "0")]
    {
        let knob = format!("block.{file}");
        let now = queue(&device, file);
        journal.apply(&on_device(&device, &[(&knob, ours)]).unwrap()).unwrap();
        let Change::Knobs(change) = journal.log.pending().remove(0).change else { panic!() };
        assert!(journal.undo_all(false).iter().all(Undo::is_done));
        let begun = KnobChange { left: Vec::new(), ..change };
        write(&device, file, theirs);
        let step = journal.log.intend(Change::Knobs(begun.clone())).unwrap();
        let outcome = undo(
            &SysRoot::live(),
            &mut journal.log,
            step,
            &begun,
            false,
            &mut Wait::to_the_end(&mut |_| ()),
        );
        let Undo::ChangedBySomebody { foreign } = &outcome else { panic!("{knob}: {outcome:?}") };
        assert_eq!((foreign.len(), foreign[0].knob.as_str()), (1, knob.as_str()));
        assert!(queue(&device, file).contains(theirs));
        // What fathom itself may have written is taken back.
        write(&device, file, ours);
        let undone = journal.undo_all(false);
        assert_eq!(undone, [Undo::Restored], "{knob}");
        assert_eq!(queue(&device, file), now);
    }
    assert_same(&before, &state(&device), "begun");
}
