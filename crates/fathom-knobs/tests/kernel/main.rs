//! Settings of real kernels: schedulers, limits and read-ahead of loop devices, options of filesystems, the page cache.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod child;
mod exact;
mod foreign;
mod kills;
mod machine;
mod mounts;
mod random;

use fathom_testkit::Capability::{FsOnLoop, LoopDevices, MountFs, Root, Tool};
use fathom_testkit::{FsKind, harness, kernel_test};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(dir) = std::env::var_os(child::DIR) {
        return child::play(dir.as_ref());
    }
    let all_filesystems = FsKind::ALL.map(FsOnLoop);
    harness::run(vec![
        kernel_test("every_setting_of_a_queue_comes_back", &[LoopDevices], exact::every_setting),
        kernel_test("couplings_are_as_the_table_says", &[LoopDevices], exact::couplings),
        kernel_test("clamps_and_rounding_are_told", &[LoopDevices], exact::clamps),
        kernel_test("refused_settings_change_nothing", &[LoopDevices], exact::refused),
        kernel_test("own_settings_come_back", &[LoopDevices], exact::own),
        kernel_test("dirty_limits_come_back", &[Root], machine::dirty_limits),
        kernel_test("every_setting_of_the_machine_comes_back", &[Root], machine::every_setting),
        kernel_test("options_of_mounts_come_back", &all_filesystems, mounts::options),
        kernel_test(
            "mounts_are_found_by_their_numbers",
            &[FsOnLoop(FsKind::Ext4), Tool("mount"), Tool("umount")],
            mounts::moved,
        ),
        kernel_test(
            "mounts_anew_are_others",
            &[FsOnLoop(FsKind::Ext4), Tool("mount"), Tool("umount")],
            mounts::mounted_anew,
        ),
        kernel_test(
            "the_read_ahead_of_a_remote_mount_comes_back",
            &[MountFs("fuse"), Tool("mount"), Tool("umount")],
            mounts::remote,
        ),
        kernel_test("foreign_changes_are_kept", &[LoopDevices], foreign::kept),
        kernel_test("later_changes_are_kept", &[LoopDevices], foreign::kept_for_good),
        kernel_test(
            "changes_to_what_was_begun_are_kept",
            &[LoopDevices],
            foreign::kept_though_only_begun,
        ),
        kernel_test("drift_is_named", &[LoopDevices], foreign::drift_is_named),
        kernel_test("reboots_and_vanished_devices", &[LoopDevices], foreign::gone),
        kernel_test("killed_anywhere_everything_comes_back", &[LoopDevices], kills::anywhere),
        kernel_test("random_sequences_come_back", &[LoopDevices], random::sequences),
    ])
}
