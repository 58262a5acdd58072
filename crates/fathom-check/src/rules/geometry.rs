//! Alignment and geometry through all layers.

mod entries;
mod filesystems;
mod hints;
mod requests;
mod sizes;
mod starts;
mod tables;
#[cfg(test)]
mod tests;
mod unseen;

use crate::rule;
use crate::rule::Rule;
pub(crate) use filesystems::{BLOCK_BYTES_MAX, SMALL_BYTES as SMALL_BLOCKS_FROM_BYTES};
pub(crate) use starts::{SMALL_BYTES as SMALL_PARTITION_BYTES, carries_load};

/// The rules of this group.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule!("misaligned", "physical blocks are missed", High, Guest, starts::misaligned),
    rule!("stripe-misaligned", "the stripes of an array are missed", Medium, Guest, starts::stripe_misaligned),
    rule!("lvm-extent-off-stripe", "extents are no multiple of the stripe", Low, Guest, starts::extent_off_stripe),
    rule!("ext4-stripe-geometry", "ext4 does not know its array", Medium, Guest, filesystems::ext_geometry),
    rule!("xfs-stripe-geometry", "XFS does not know its array", Medium, Guest, filesystems::xfs_geometry),
    rule!("made-before-reshape", "a filesystem knows an array that was smaller", Medium, Guest, filesystems::before_reshape),
    rule!("fs-block-below-physical", "blocks smaller than the drive's", Medium, Guest, filesystems::small_blocks),
    rule!("device-space-unused", "a large part of a device is not used", Low, Host, sizes::unused),
    rule!("filesystem-larger-than-device", "a filesystem ends behind its device", High, Host, sizes::larger),
    rule!("mbr-over-2tib", "an MBR on a disk that it cannot describe", Medium, Host, tables::mbr_over_2tib),
    rule!("gpt-backup-misplaced", "the second GPT is not at the end", High, Host, tables::backup_misplaced),
    rule!("table-sector-size", "a partition table for other sectors", High, Host, tables::sector_size),
    rule!("table-changed", "the kernel uses an older partition table", High, Host, entries::changed),
    rule!("partitions-overlap", "two partitions share sectors", High, Host, entries::overlap),
    rule!("superblock-damaged", "a superblock contradicts itself", Medium, Host, tables::damaged),
    rule!("io-hints-lost", "hints about blocks or stripes get lost", Medium, Guest, hints::lost),
    rule!("io-hints-differ", "the kernel sees another drive", Medium, Guest, hints::differ),
    rule!("crypt-sector-512", "encryption in sectors of 512 bytes", Medium, Guest, hints::crypt_sector),
    rule!("chunk-below-requests", "requests are cut by the chunk", Low, Guest, requests::chunk_below_requests),
    rule!("chunk-small", "chunks shorter than a drive reads ahead", Low, Guest, requests::chunk_small),
];
