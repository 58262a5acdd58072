//! Which disk of a stripe has parity, and which has which data: the layouts of raid5 and raid6.

/// How parity goes round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rotation {
    /// Data left of the parity, then right of it; the place from the last disk downward, or upward.
    Asymmetric { is_left: bool, parities: u64, ahead: u64 },
    /// Data begin behind the parity and go round.
    Symmetric { is_left: bool, parities: u64 },
    /// Always the first disks.
    First { parities: u64 },
    /// Always the last disks.
    Last { parities: u64 },
    /// Q before P, data behind P.
    Continue,
    /// A layout of raid5 over all disks but the last, which has Q.
    WithLast(&'static Rotation),
}

const RAID5: [Rotation; 6] = [
    Rotation::Asymmetric { is_left: true, parities: 1, ahead: 0 },
    Rotation::Asymmetric { is_left: false, parities: 1, ahead: 0 },
    Rotation::Symmetric { is_left: true, parities: 1 },
    Rotation::Symmetric { is_left: false, parities: 1 },
    Rotation::First { parities: 1 },
    Rotation::Last { parities: 1 },
];

const RAID6: [Rotation; 6] = [
    Rotation::Asymmetric { is_left: true, parities: 2, ahead: 0 },
    Rotation::Asymmetric { is_left: false, parities: 2, ahead: 0 },
    Rotation::Symmetric { is_left: true, parities: 2 },
    Rotation::Symmetric { is_left: false, parities: 2 },
    Rotation::First { parities: 2 },
    Rotation::Last { parities: 2 },
];

impl Rotation {
    /// That of a layout by the kernel's number.
    pub fn of(parities: u64, layout: u64) -> Option<Self> {
        let at = usize::try_from(layout).ok()?;
        match (parities, layout) {
            (1, 0..=5) => RAID5.get(at).copied(),
            (2, 0..=5) => RAID6.get(at).copied(),
            (2, 8) => Some(Self::Asymmetric { is_left: false, parities: 2, ahead: 0 }),
            (2, 9) => Some(Self::Asymmetric { is_left: true, parities: 2, ahead: 1 }),
            (2, 10) => Some(Self::Continue),
            (2, 16..=20) => RAID5.get(at - 16).map(Self::WithLast),
            _ => None,
        }
    }

    /// The disks of P and, of raid6, Q in a stripe of n disks.
    pub fn parity(&self, n: u64, stripe: u64) -> (u64, Option<u64>) {
        let turn = |is_left: bool, stripe: u64| match is_left {
            true => n - 1 - stripe % n,
            false => stripe % n,
        };
        let with_q = |p: u64, parities: u64| (p, (parities == 2).then_some((p + 1) % n));
        match self {
            Self::Asymmetric { is_left, parities, ahead } => {
                with_q(turn(*is_left, stripe + ahead), *parities)
            }
            Self::Symmetric { is_left, parities } => with_q(turn(*is_left, stripe), *parities),
            Self::First { parities } => with_q(0, *parities),
            Self::Last { parities } => with_q(n - parities, *parities),
            Self::Continue => {
                let p = turn(true, stripe);
                (p, Some((p + n - 1) % n))
            }
            Self::WithLast(inner) => (inner.parity(n - 1, stripe).0, Some(n - 1)),
        }
    }

    /// The disk of the data chunk with this index in the stripe.
    pub fn data(&self, n: u64, stripe: u64, index: u64) -> u64 {
        let (p, q) = self.parity(n, stripe);
        match self {
            Self::Asymmetric { parities, .. } => {
                // P last and Q first leaves the disks between.
                if *parities == 2 && p == n - 1 {
                    return index + 1;
                }
                if index >= p { index + parities } else { index }
            }
            Self::Symmetric { parities, .. } => (p + parities + index) % n,
            Self::First { parities } => index + parities,
            Self::Last { .. } => index,
            Self::Continue => (p + 1 + index) % n,
            Self::WithLast(inner) => {
                debug_assert!(q == Some(n - 1), "Q on the last disk");
                inner.data(n - 1, stripe, index)
            }
        }
    }
}
