//! Recorded lines of processors and interrupts.

use super::*;
use fathom_testkit::Tree;
use proptest::prelude::*;

#[test]
fn equal_policies_are_told_once() {
    let policy = |number: u32, cpus: &str, governor: &str| {
        format!(
            "[sys/devices/system/cpu/cpufreq/policy{number}]\naffected_cpus = {cpus}\n\
             scaling_driver = acpi-cpufreq\nscaling_governor = {governor}\n\
             scaling_available_governors = powersave performance\nscaling_min_freq = 800000\n\
             scaling_max_freq = 2000000\ncpuinfo_max_freq = 3000000\n"
        )
    };
    let tree = Tree::of_text(
        &[policy(0, "0 1", "powersave"), policy(10, "2", "powersave"), policy(3, "3", "schedutil")]
            .concat(),
    );
    let root = tree.root();
    let found = frequency_policies(&mut Reader::new(&root));
    let told: Vec<_> = found.iter().map(|p| (p.cpus.as_str(), p.governor.as_deref())).collect();
    assert_eq!(told, [("0-2", Some("powersave")), ("3", Some("schedutil"))]);
    assert_eq!(found[0].governors, ["powersave", "performance"]);
    assert_eq!(
        (found[0].limits_khz, found[0].hardware_max_khz),
        (Some((800_000, 2_000_000)), Some(3_000_000))
    );
    assert_eq!(found[0].energy_preference, None);
}

#[test]
fn idle_states_in_the_order_of_their_numbers() {
    let state = |n: u32, name: &str, us: u32, off: u32| {
        format!(
            "cpu1/cpuidle/state{n}/name = {name}\ncpu1/cpuidle/state{n}/latency = {us}\ncpu1/cpuidle/state{n}/disable = {off}\n"
        )
    };
    let text = format!(
        "[sys/devices/system/cpu]\ncpu0/online = 1\ncpuidle/current_driver = x\n{}{}{}",
        state(10, "C10", 890, 0),
        state(0, "POLL", 0, 0),
        state(2, "C6", 133, 1)
    );
    let tree = Tree::of_text(&text);
    let root = tree.root();
    let found = idle_states(&mut Reader::new(&root));
    let told: Vec<_> =
        found.iter().map(|s| (s.name.as_str(), s.exit_latency_us, s.disabled)).collect();
    assert_eq!(told, [("POLL", 0, false), ("C6", 133, true), ("C10", 890, false)]);
}

const INTERRUPTS: &str = "           CPU0       CPU2
  8:          1          0  IO-APIC   8-edge      rtc0
 16:         29          7  IO-APIC  16-fasteoi   ahci, ehci_hcd:usb1
 35:          0          1 PCI-MSIX-0000:00:02.0   0-edge      virtio1-config
 36:          0    1253140 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 38:          0       3531 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 44:          5          0  IR-PCI-MSI 524289-edge      nvme0q1
NMI:          0          0   Non-maskable interrupts
ERR:          0
";

#[test]
fn interrupts_of_storage_with_their_cpus() {
    let tree = Tree::new();
    tree.put("proc/interrupts", INTERRUPTS)
        .put("proc/irq/36/smp_affinity_list", "0-2\n")
        .put("proc/irq/36/effective_affinity_list", "2\n");
    let root = tree.root();
    let found = storage_interrupts(&mut Reader::new(&root));
    let names: Vec<_> = found.iter().map(|i| (i.irq, i.name.as_str())).collect();
    assert_eq!(names, [(16, "ahci, ehci_hcd:usb1"), (36, "virtio1-req.0"), (44, "nvme0q1")]);
    assert_eq!(found[0].counts, [(0, 29), (2, 7)]);
    assert_eq!(found[1].counts, [(2, 1_253_140)]);
    assert_eq!(found[1].allowed_cpus.as_deref(), Some("0-2"));
    assert_eq!(found[1].effective_cpus.as_deref(), Some("2"));
}

#[test]
fn stolen_time_is_a_share_of_all() {
    let tree = Tree::of_text(
        "[proc]\nstat = cpu  50 0 30 15 0 0 0 5 0 0\n[sys/devices/system/cpu]\nonline = 0-3,6\n",
    );
    assert_eq!(stolen_share(&tree.root()), Some(0.05));
    assert_eq!(online(&tree.root()), Some(5));
    assert_eq!(stolen_share(&Tree::new().root()), None);
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_crash(text in "[ -~\n]{0,400}") {
        let lines = text.lines().count();
        prop_assert!(parse_interrupts(&text).len() <= lines);
    }

    /// A list counts as many CPUs as it was made of.
    #[test]
    fn lists_of_cpus_count_as_many(cpus in proptest::collection::btree_set(0..300u64, 1..40)) {
        let cpus: Vec<u64> = cpus.into_iter().collect();
        prop_assert_eq!(hostinfo::cpu_list_len(&cpu_list(&cpus)), Some(cpus.len() as u64));
    }
}
