//! How a ring is set up: flags that make it cheaper, and the ways that a job may ask for.

use io_uring::IoUring;
use std::io;

/// A setup flag that makes a ring cheaper; each is probed on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingFeature {
    /// Only one thread submits.
    SingleIssuer,
    /// Completion work runs when the owner waits for it, not by interrupting it.
    DeferTaskrun,
    /// Completion work does not interrupt the owner with an inter-processor interrupt.
    CoopTaskrun,
    /// No indirection array for submissions.
    NoSqarray,
}

impl RingFeature {
    /// All features, in the order in which they are tried.
    pub const ALL: [Self; 4] =
        [Self::SingleIssuer, Self::DeferTaskrun, Self::CoopTaskrun, Self::NoSqarray];

    /// The kernel's name, in lower case.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SingleIssuer => "single_issuer",
            Self::DeferTaskrun => "defer_taskrun",
            Self::CoopTaskrun => "coop_taskrun",
            Self::NoSqarray => "no_sqarray",
        }
    }
}

/// Whether files, buffers and the ring's descriptor are registered with the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registration {
    /// What cannot be registered (buffers, by the limit on locked memory) is used as it is.
    #[default]
    WherePossible,
    /// All of it, or the ring cannot be made.
    Must,
    /// None of it.
    Never,
}

/// How a ring works.
#[derive(Debug, Clone, Default)]
pub struct RingOptions {
    /// Flags of which the kernel is known to have them.
    pub features: Vec<RingFeature>,
    /// Completions are polled for, instead of interrupts (IORING_SETUP_IOPOLL).
    pub polled: bool,
    /// A thread of the kernel submits (IORING_SETUP_SQPOLL).
    pub sqpoll: bool,
    /// What is registered.
    pub registration: Registration,
    /// Requests that one call hands over at the most.
    pub submit_max: Option<u32>,
}

/// How long the kernel's submitting thread waits for more before it sleeps.
const SQPOLL_IDLE_MS: u32 = 1000;

impl RingOptions {
    /// The flags that are used: a thread of the kernel that submits excludes those about running in the owner.
    pub(super) fn features_used(&self) -> impl Iterator<Item = RingFeature> {
        let sqpoll = self.sqpoll;
        let is_about_owner =
            |f: &RingFeature| matches!(f, RingFeature::DeferTaskrun | RingFeature::CoopTaskrun);
        self.features.iter().copied().filter(move |f| !(sqpoll && is_about_owner(f)))
    }

    pub(super) fn build(&self, entries: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(entries.next_power_of_two().max(2) * 2);
        for feature in self.features_used() {
            match feature {
                RingFeature::SingleIssuer => builder.setup_single_issuer(),
                RingFeature::DeferTaskrun => builder.setup_defer_taskrun(),
                RingFeature::CoopTaskrun => builder.setup_coop_taskrun(),
                RingFeature::NoSqarray => builder.setup_no_sqarray(),
            };
        }
        if self.polled {
            builder.setup_iopoll();
        }
        if self.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
        // The kernel's thread gives places back only after it has submitted everything that it saw: requests may have
        // ended, and others taken their slots, while the queue still holds the places of all of them.
        builder.build(if self.sqpoll { entries * 2 } else { entries })
    }
}

/// The features that this kernel has, each probed alone (deferred task work needs the single issuer beside it).
///
/// # Errors
/// When no ring can be made at all: ENOSYS (kernel without io_uring), EPERM (forbidden by
/// `kernel.io_uring_disabled` or a seccomp filter), ENOMEM (out of memory, or the locked-memory limit of old kernels).
pub fn supported_features() -> io::Result<Vec<RingFeature>> {
    let build = |features: &[RingFeature]| {
        RingOptions { features: features.to_vec(), ..RingOptions::default() }.build(2)
    };
    build(&[])?;
    let mut features = Vec::new();
    for feature in RingFeature::ALL {
        let probed = match feature {
            RingFeature::DeferTaskrun => build(&[RingFeature::SingleIssuer, feature]),
            other => build(&[other]),
        };
        match probed {
            Ok(_) => features.push(feature),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            // Short of memory or descriptors for a moment: what was left out for that would not fit the rest.
            Err(error) => return Err(error),
        }
    }
    Ok(features)
}
