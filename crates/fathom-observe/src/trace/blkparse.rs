//! Traces as blkparse prints them, in its default form:
//!
//! ```text
//! 8,0    3       11     0.009507758   697  D   W 223490 + 56 [kjournald]
//! ```
//! that is device, processor, number, seconds, process, action, letters, and what belongs to the action. Lines of other devices
//! than the first one, and those about plugs, timers and messages, are passed over; so is the summary at the end.

use super::event::{Action, Event, Names, Others, TIME_NS_MAX, place};
use super::file::TraceError;
use super::numbers::Numbers;
use std::collections::HashMap;
use std::io::BufRead;

/// A line is longer only in a file of something else.
const LINE_BYTES_MAX: u64 = 4096;
/// Lines that are looked at before a file without an event counts as something else.
const STRANGE_LINES_MAX: u64 = 500;

/// A text that is being read.
pub struct Text<R> {
    input: R,
    names: Names,
    device: Option<String>,
    line: Vec<u8>,
    skipped: u64,
    others: Others,
    events: u64,
    strange: u64,
    cut_off: bool,
    /// Of each device a row for each processor.
    numbers: HashMap<String, Numbers<u16>>,
    /// Lines are missing since it was last asked.
    has_gap: bool,
}

/// What a line says.
#[derive(Debug, PartialEq)]
enum Line {
    Event(Event),
    /// An action that is not followed.
    Other,
    /// Of another device.
    OtherDevice,
    /// Begins as an event does, but is none.
    Broken,
    /// Anything else: the summary.
    Text,
}

impl<R: BufRead> Text<R> {
    /// Begins to read.
    pub fn new(input: R) -> Self {
        let (names, line) = (Names::default(), Vec::new());
        let others = Others::default();
        let (skipped, events, strange, cut_off) = (0, 0, 0, false);
        let (numbers, has_gap) = (HashMap::new(), false);
        Self {
            input,
            names,
            device: None,
            line,
            skipped,
            others,
            events,
            strange,
            cut_off,
            numbers,
            has_gap,
        }
    }

    /// Of that device, instead of the one that comes first.
    pub fn of_device(self, (major, minor): (u32, u32)) -> Self {
        Self { device: Some(format!("{major},{minor}")), ..self }
    }

    /// Names of processes.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Major and minor number of the device, as in the text.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Lines that begin as an event does and are none.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// It ended inside of an event, without the end of a line.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Its own numbers; none before its first line.
    fn own_numbers(&self) -> Option<&Numbers<u16>> {
        self.numbers.get(self.device.as_deref()?)
    }

    /// Records of the device that are missing, as the numbers of lines tell: they were lost, or left out of the text.
    pub fn lost(&self) -> u64 {
        self.own_numbers().map_or(0, Numbers::missing)
    }

    /// Records that are missing at its beginning, by the same numbers.
    pub fn before_first(&self) -> u64 {
        self.own_numbers().map_or(0, Numbers::before_first)
    }

    /// True once after each place where lines are missing.
    pub fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.has_gap)
    }

    /// Events of other devices.
    pub fn others(&self) -> &Others {
        &self.others
    }

    fn read_line(&mut self) -> Result<bool, TraceError> {
        use std::io::Read;
        self.line.clear();
        let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        Ok(read > 0)
    }
}

impl<R: BufRead> Iterator for Text<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read_line() {
                Err(error) => return Some(Err(error)),
                Ok(false) if self.events == 0 && self.device.is_none() => {
                    // Once only.
                    self.device = Some(String::new());
                    return Some(Err(TraceError::Foreign("no line of it is an event".into())));
                }
                Ok(false) => return None,
                Ok(true) => {}
            }
            let text = String::from_utf8_lossy(&self.line).into_owned();
            if let Some((device, cpu, number)) = numbered(&text) {
                let rows = self.numbers.entry(device.to_owned()).or_default();
                let is_behind_gap = rows.is_behind_gap(cpu, number);
                self.has_gap |= is_behind_gap && self.device.as_deref() == Some(device);
            }
            let is_last = !text.ends_with('\n') && self.line.len() < LINE_BYTES_MAX as usize;
            match parse(&text, &mut self.device, &mut self.names) {
                Line::Event(event) => {
                    self.events += 1;
                    return Some(Ok(event));
                }
                Line::Other => {}
                Line::OtherDevice => {
                    self.others.count(text.split_whitespace().next().unwrap_or_default())
                }
                Line::Broken if is_last => self.cut_off = true,
                Line::Broken => self.skipped += 1,
                Line::Text if self.events == 0 => {
                    self.strange += 1;
                    if self.strange > STRANGE_LINES_MAX {
                        self.device.get_or_insert_default();
                        return Some(Err(TraceError::Foreign(
                            "its first lines are no events".into(),
                        )));
                    }
                }
                Line::Text => self.cut_off |= is_last && may_begin_device(text.trim_start()),
            }
        }
    }
}

/// Device, processor and number of a line. Messages have none: a zero stands there.
fn numbered(text: &str) -> Option<(&str, u16, u32)> {
    let mut words = text.split_whitespace();
    let device = words.next().filter(|word| is_device(word))?;
    let (cpu, number) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (number != 0).then_some((device, cpu, number))
}

fn parse(text: &str, device: &mut Option<String>, names: &mut Names) -> Line {
    let mut words = text.split_whitespace();
    let Some(first) = words.next().filter(|word| is_device(word)) else { return Line::Text };
    let rest: Vec<&str> = words.collect();
    let [cpu, number, time, process, action, letters, tail @ ..] = rest.as_slice() else {
        return Line::Broken;
    };
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let (Ok(cpu), true, Some(time_ns)) = (cpu.parse::<u16>(), is_number(number), parse_time(time))
    else {
        return Line::Broken;
    };
    let action = match *action {
        "Q" => Action::Queue,
        "G" => Action::Place,
        "I" => Action::Insert,
        "D" => Action::Issue,
        "C" => Action::Complete,
        "F" => Action::FrontMerge,
        "M" => Action::BackMerge,
        "R" => Action::Requeue,
        "X" => Action::Split,
        "A" => Action::Remap,
        // Plugs, timers, messages, bounces, aborts.
        _ => return Line::Other,
    };
    match device {
        None => *device = Some(first.to_owned()),
        Some(known) if known != first => return Line::OtherDevice,
        Some(_) => {}
    }
    let mut event = Event::new(action, time_ns);
    event.cpu = cpu;
    event.process = process.parse().unwrap_or(0);
    if fill(&mut event, tail, names).is_none() {
        return Line::Broken;
    }
    Line::Event(event.with_letters(letters.as_bytes()))
}

/// What stands behind the letters: `223490 + 8 [name]`, `100 / 200 [name]`, `223490 + 8 <- (8,1) 223427`, `223490 [0]`.
fn fill(event: &mut Event, tail: &[&str], names: &mut Names) -> Option<()> {
    // A command of the driver has its bytes first: `36 (12 00 ..) [name]`.
    let first = tail.first().copied().unwrap_or_default();
    let sector = first.parse().ok().and_then(place);
    let is_number = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
    if sector.is_none() && is_number {
        return None;
    }
    event.sector = sector.unwrap_or(0);
    let (sign, second) =
        (tail.get(1).copied(), tail.get(2).and_then(|word| word.parse::<u64>().ok()));
    match (event.action, sign) {
        (Action::Split, Some("/")) => {
            event.other_sector = second?;
            event.sectors = u32::try_from(event.other_sector.checked_sub(event.sector)?).ok()?;
        }
        (Action::Split, _) => return None,
        (_, Some("+")) => event.sectors = u32::try_from(second?).ok()?,
        _ => {}
    }
    if event.action == Action::Remap {
        event.other_sector = tail.last()?.parse().ok()?;
        return sector.map(|_| ());
    }
    let text = tail.join(" ");
    let inside =
        text.rsplit_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name)?;
    if event.action == Action::Complete {
        event.error = inside.parse().ok()?;
    } else {
        event.name = names.number_of(inside);
    }
    Some(())
}

fn is_device(word: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    word.split_once(',').is_some_and(|(major, minor)| digits(major) && digits(minor))
}

/// All that is left of a line may be the start of its first word.
fn may_begin_device(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b',')
}

/// Seconds with nine places, exactly.
fn parse_time(text: &str) -> Option<u64> {
    let (seconds, places) = text.split_once('.')?;
    if places.is_empty() || places.len() > 9 || !places.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let ns = places.parse::<u64>().ok()? * 10u64.pow(9 - places.len() as u32);
    let time_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(ns)?;
    (time_ns <= TIME_NS_MAX).then_some(time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::{Class, Flags};

    const TEXT: &str = "  8,0    3        1     0.000000000   697  A  WS 223490 + 8 <- (8,1) 223427
  8,0    3        2     0.000001829   697  Q  WS 223490 + 8 [kjournald]
  8,0    3        3     0.000005234   697  P   N [kjournald]
  8,16   1        9     0.000005300   698  Q   R 8 + 8 [other]
  8,0    3        4     0.000006000   697  X   R 100 / 164 [a name]
  8,0    3        5     0.009508000   697  D  WS 223490 + 8 [kjournald]
  8,0    3        6     0.009600000     0  C  WS 223490 + 8 [0]
  8,0    1        7     1.500000000     0  C   R 32 + 8 [65531]
  8,0    1        8     1.6
  8,0    0        9     1.700000001    12  Q FWS [jbd2/sda-8]

CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (8,0):
";

    #[test]
    fn lines_are_events() {
        let mut text = Text::new(TEXT.as_bytes());
        let events: Vec<Event> = text.by_ref().map(|event| event.expect("an event")).collect();
        let actions: Vec<Action> = events.iter().map(|event| event.action).collect();
        use Action::{Complete, Issue, Queue, Remap, Split};
        assert_eq!(actions, [Remap, Queue, Split, Issue, Complete, Complete, Queue]);
        assert_eq!((events[0].sector, events[0].other_sector), (223_490, 223_427));
        let queued = events[1];
        assert_eq!((queued.time_ns, queued.process, queued.sectors), (1829, 697, 8));
        assert!(queued.class == Class::Write && queued.flags.has(Flags::SYNC));
        assert_eq!(text.names().get(queued.name), "kjournald");
        assert_eq!((events[2].sectors, text.names().get(events[2].name)), (64, "a name"));
        assert_eq!((events[4].error, events[5].error), (0, 65531));
        assert_eq!((events[6].class, events[6].time_ns), (Class::Flush, 1_700_000_001));
        assert_eq!((text.device(), text.skipped(), text.others().events), (Some("8,0"), 1, 1));
        assert_eq!((text.lost(), text.take_gap()), (0, false));
    }

    /// Plugs have numbers too, messages a zero.
    #[test]
    fn lines_that_are_missing_are_lost_records() {
        let line = |number: u64| match number {
            0 => "8,0 3 0 0.1 697 m N a message\n".to_owned(),
            5 => "8,0 3 5 0.1 697 P N [x]\n".to_owned(),
            _ => format!("8,0 3 {number} 0.1 697 Q R {} + 8 [x]\n", 8 * number),
        };
        let lost = |numbers: &[u64]| {
            let lines: String = numbers.iter().map(|number| line(*number)).collect();
            let mut text = Text::new(lines.as_bytes());
            let mut behind = Vec::new();
            while let Some(event) = text.next() {
                let sector = event.expect("an event").sector;
                behind.extend(text.take_gap().then_some(sector / 8));
            }
            (text.lost(), behind)
        };
        assert_eq!(lost(&[3, 4, 0, 5, 0, 6]), (0, vec![]));
        assert_eq!(lost(&[3, 4, 9, 10]), (4, vec![9]));
        let late = [line(3001), line(3002)].concat();
        let mut text = Text::new(late.as_bytes());
        assert_eq!(text.by_ref().count(), 2);
        assert_eq!((text.lost(), text.before_first()), (0, 3000));
    }

    /// Lines 100 to 200 of the other device are missing, or of this one.
    #[test]
    fn what_is_missing_of_another_device_is_not_missing_here() {
        let line = |device: &str, number: u64| {
            format!("{device} 0 {number} 0.{number:06} 697 Q R {number} + 8 [x]\n")
        };
        let of = |number: u64| {
            let other = Some(line("8,32", number)).filter(|_| !(100..=200).contains(&number));
            line("7,3", number) + &other.unwrap_or_default()
        };
        let lines: String = (1..=600).map(of).collect();
        let lost = |device: (u32, u32)| {
            let mut text = Text::new(lines.as_bytes()).of_device(device);
            let mut gaps = 0;
            while text.next().is_some() {
                gaps += u64::from(text.take_gap());
            }
            (text.lost(), gaps)
        };
        assert_eq!((lost((7, 3)), lost((8, 32))), ((0, 0), (101, 1)));
    }

    /// Whatever is left of the last line, as long as it is no event.
    #[test]
    fn a_line_that_was_cut_is_told() {
        let (first, last) = ("8,0 3 2 0.1 697 Q R 8 + 8 [x]\n", "  8,0 3 3 0.2 697 Q R 16 + 8 [x]");
        let read = |text: &str| {
            let mut text = Text::new(text.as_bytes());
            (text.by_ref().filter(Result::is_ok).count(), text.is_cut_off(), text.skipped())
        };
        assert_eq!(read(first), (1, false, 0));
        for length in 3..last.len() {
            let found = read(&format!("{first}{}", &last[..length]));
            assert_eq!(found, (1, true, 0), "{}", &last[..length]);
        }
        assert_eq!(read(&format!("{first}{last}")), (2, false, 0), "it is whole");
        assert_eq!(read(&format!("{first}Total (8,0):")), (1, false, 0));
    }

    /// No disk has such a place: it is not the start of this one.
    #[test]
    fn a_sector_that_is_too_large_is_none() {
        let line = |sector| format!("8,0 3 2 0.1 697 Q R {sector} + 8 [x]\n");
        let lines = ["8", "99999999999999999999", "18446744073709551615", "18446744073709551614"]
            .map(line)
            .concat();
        let mut text = Text::new(lines.as_bytes());
        let sectors: Vec<u64> = text.by_ref().filter_map(Result::ok).map(|e| e.sector).collect();
        assert_eq!((sectors, text.skipped()), (vec![8, 0], 2), "the largest is that of flushes");
    }

    #[test]
    fn other_texts_are_told() {
        for text in ["", "hello\nworld\n", &"x\n".repeat(10_000)] {
            let first = Text::new(text.as_bytes()).next();
            assert!(matches!(first, Some(Err(TraceError::Foreign(_)))), "{first:?}");
        }
        let long = "8,0 ".repeat(100_000);
        assert!(Text::new(long.as_bytes()).take(1000).count() < 1000);
    }

    #[test]
    fn times_are_those_of_machines() {
        assert_eq!(parse_time("1.5"), Some(1_500_000_000));
        assert_eq!(parse_time("9223372036.854775807"), Some(TIME_NS_MAX));
        for text in ["9223372036.854775808", "18446744073.0", "1.", "1.0000000001", "-1.0"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
