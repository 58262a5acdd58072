//! Questions to ATA drives, as commands of the SCSI ATA PASS-THROUGH (16) of SAT-4; commands of ACS-4.

/// A command that only asks. None of them wakes a drive but [`Question::SmartData`] and what follows it in this list, so
/// the power mode is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Does it sleep?
    CheckPowerMode,
    /// Who it is, and what it can do.
    Identify,
    /// The values of all SMART attributes.
    SmartData,
    /// Their thresholds.
    SmartThresholds,
    /// Its own judgement.
    SmartStatus,
    /// The results of self-tests.
    SelfTestLog,
    /// A page of a log: address and page.
    Log(u8, u8),
}

/// Bytes of a sector, and of every answer here.
pub const SECTOR_BYTES: usize = 512;

const PROTOCOL_NO_DATA: u8 = 3;
const PROTOCOL_DATA_IN: u8 = 4;

/// The registers of a command.
#[derive(Default)]
struct Command {
    code: u8,
    feature: u8,
    lba_low: u8,
    lba_mid: u8,
    lba_high: u8,
    /// One with registers of 16 bits.
    extended: bool,
    /// One that answers in its registers.
    no_data: bool,
}

impl Question {
    /// The SCSI command block that carries it, and the size of its answer.
    #[must_use]
    pub fn pass_through(self) -> (Vec<u8>, usize) {
        let smart = |feature: u8| Command {
            code: 0xb0,
            feature,
            lba_mid: 0x4f,
            lba_high: 0xc2,
            ..Command::default()
        };
        let command = match self {
            Self::CheckPowerMode => Command { code: 0xe5, no_data: true, ..Command::default() },
            Self::Identify => Command { code: 0xec, ..Command::default() },
            Self::SmartData => smart(0xd0),
            Self::SmartThresholds => smart(0xd1),
            Self::SmartStatus => Command { no_data: true, ..smart(0xda) },
            Self::SelfTestLog => Command { lba_low: 0x06, ..smart(0xd5) },
            Self::Log(address, page) => Command {
                code: 0x2f,
                lba_low: address,
                lba_mid: page,
                extended: true,
                ..Command::default()
            },
        };
        command.pass_through()
    }
}

impl Command {
    fn pass_through(&self) -> (Vec<u8>, usize) {
        let protocol = if self.no_data { PROTOCOL_NO_DATA } else { PROTOCOL_DATA_IN };
        // Without data: the registers are wanted back. With data: from the drive, counted in blocks by the count register.
        let transfer = if self.no_data { 0x20 } else { 0x0e };
        let count = u8::from(!self.no_data);
        let block = vec![
            0x85,
            protocol << 1 | u8::from(self.extended),
            transfer,
            0,
            self.feature,
            0,
            count,
            0,
            self.lba_low,
            0,
            self.lba_mid,
            0,
            self.lba_high,
            0,
            self.code,
            0,
        ];
        (block, if self.no_data { 0 } else { SECTOR_BYTES })
    }
}

/// What a command without data left in the drive's registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// Error register.
    pub error: u8,
    /// Status register; bit 0 means that the command failed.
    pub status: u8,
    /// Count register, low byte.
    pub count: u8,
    /// Bits 15 to 8 of the address.
    pub lba_mid: u8,
    /// Bits 23 to 16 of the address.
    pub lba_high: u8,
}

/// The registers in the sense data of a pass-through command; none where there are none.
#[must_use]
pub fn registers(sense: &[u8]) -> Option<Registers> {
    match sense.first()? & 0x7f {
        0x72 | 0x73 => in_descriptors(sense.get(8..)?),
        // Fixed form: only when the additional code says "ATA pass-through information available".
        0x70 | 0x71 if sense.get(12..14)? == [0x00, 0x1d] => Some(Registers {
            error: *sense.get(3)?,
            status: *sense.get(4)?,
            count: *sense.get(6)?,
            lba_mid: *sense.get(10)?,
            lba_high: *sense.get(11)?,
        }),
        _ => None,
    }
}

/// Looks for the ATA Status Return descriptor, which has code 9 and 12 bytes after its first two.
fn in_descriptors(mut rest: &[u8]) -> Option<Registers> {
    loop {
        let (code, len) = (*rest.first()?, usize::from(*rest.get(1)?));
        let body = rest.get(2..2 + len)?;
        if code == 0x09 && len >= 12 {
            return Some(Registers {
                error: body[1],
                status: body[11],
                count: body[3],
                lba_mid: body[7],
                lba_high: body[9],
            });
        }
        rest = rest.get(2 + len..)?;
    }
}

/// True when the answer to [`Question::CheckPowerMode`] says standby.
#[must_use]
pub fn is_standby(registers: &Registers) -> bool {
    registers.status & 1 == 0 && matches!(registers.count, 0x00 | 0x01)
}

/// The drive's judgement in the answer to [`Question::SmartStatus`]: true for passed; none for any other answer.
#[must_use]
pub fn has_passed(registers: &Registers) -> Option<bool> {
    match (registers.lba_mid, registers.lba_high) {
        (0x4f, 0xc2) => Some(true),
        (0xf4, 0x2c) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sense data in descriptor form with one other descriptor before the registers.
    fn sense(count: u8, mid: u8, high: u8) -> Vec<u8> {
        let mut sense = vec![0x72, 1, 0, 0x1d, 0, 0, 0, 18, 0x02, 2, 0, 0, 0x09, 12];
        sense.extend([0, 0x10, 0, count, 0, 0, 0, mid, 0, high, 0xa0, 0x50]);
        sense
    }

    #[test]
    fn registers_come_back_in_descriptor_form() {
        let found = registers(&sense(0xff, 0x4f, 0xc2)).unwrap();
        assert_eq!((found.error, found.status, found.count), (0x10, 0x50, 0xff));
        assert!(!is_standby(&found));
        assert_eq!(has_passed(&found), Some(true));
        assert!(is_standby(&registers(&sense(0, 0, 0)).unwrap()));
        assert_eq!(has_passed(&registers(&sense(0, 0xf4, 0x2c)).unwrap()), Some(false));
        for len in 0..26 {
            assert_eq!(registers(&sense(0, 0, 0)[..len]), None, "{len}");
        }
    }

    #[test]
    fn registers_come_back_in_fixed_form() {
        let mut sense = vec![0u8; 18];
        sense[0] = 0x70;
        (sense[3], sense[4], sense[6]) = (0, 0x50, 0x80);
        (sense[10], sense[11]) = (0xf4, 0x2c);
        assert_eq!(registers(&sense), None, "no word that these are registers");
        sense[13] = 0x1d;
        let found = registers(&sense).unwrap();
        assert_eq!((found.count, has_passed(&found)), (0x80, Some(false)));
        assert!(!is_standby(&found));
    }

    #[test]
    fn a_failed_command_is_no_standby() {
        let mut sense = sense(0, 0, 0);
        *sense.last_mut().unwrap() = 0x51;
        assert!(!is_standby(&registers(&sense).unwrap()));
    }

    #[test]
    fn commands_have_their_registers_in_place() {
        let (block, bytes) = Question::SelfTestLog.pass_through();
        assert_eq!(block, [0x85, 8, 0x0e, 0, 0xd5, 0, 1, 0, 6, 0, 0x4f, 0, 0xc2, 0, 0xb0, 0]);
        assert_eq!(bytes, 512);
        let (block, bytes) = Question::CheckPowerMode.pass_through();
        assert_eq!(block, [0x85, 6, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe5, 0]);
        assert_eq!(bytes, 0);
        let (block, _) = Question::Log(4, 7).pass_through();
        assert_eq!((block[1], block[8], block[10], block[14]), (9, 4, 7, 0x2f));
    }
}
