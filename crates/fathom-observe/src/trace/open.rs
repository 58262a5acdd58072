//! Any file that holds a trace, as one stream of events.

use super::blkparse::Text;
use super::blktrace::{self, Merged};
use super::event::{Event, Names, Others};
use super::file::{self, Head, Reader, TraceError};
use super::joined::AsOne;
use super::refused::Refused;
use super::so_far::{Counted, SoFar};
use super::study::Study;
use fathom_model::capture::CaptureRecord;
use std::fs::{File, FileType};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

type Input = BufReader<Counted>;

/// What is read of a file at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Processors that a machine has at most.
const CPUS_MAX: u32 = 8192;

/// A trace in a file.
pub struct Source {
    form: Form,
    head: Head,
    /// Processors without a file of blktrace beside those of others.
    without_file: Vec<u32>,
    /// Why it ended early.
    broken: Option<String>,
    /// The device that was asked for.
    wanted: Option<(u32, u32)>,
    refused: Refused,
    /// Events were lost before the last one that was handed out.
    is_behind_gap: bool,
    so_far: SoFar,
}

enum Form {
    Own(Box<Reader<Input>>),
    Blktrace(Merged<Input>),
    Text(Text<Input>),
}

impl Source {
    /// Opens a trace of fathom's, the files of blktrace (by any of them) or what blkparse printed.
    ///
    /// # Errors
    /// [`TraceError`] for what cannot be read, is something else, or of a newer form.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        // Opening a pipe waits for somebody who writes into it.
        if let Some(what) = no_file(std::fs::metadata(path)?.file_type()) {
            return Err(TraceError::Foreign(what.into()));
        }
        let mut file = File::open(path)?;
        let mut start = [0; 8];
        let mut count = 0;
        while count < start.len() {
            match file.read(&mut start[count..])? {
                0 => break,
                more => count += more,
            }
        }
        if count == 0 {
            return Err(TraceError::Foreign("it is empty".into()));
        }
        file.seek(SeekFrom::Start(0))?;
        let start = &start[..count];
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let (mut without_file, mut so_far) = (Vec::new(), SoFar::default());
        let mut buffered = |file| BufReader::with_capacity(BUFFER_BYTES, so_far.count(file));
        let (form, head) = if start == file::MAGIC {
            let reader = Reader::new(buffered(file))?;
            let head = reader.head().clone();
            (Form::Own(Box::new(reader)), head)
        } else if blktrace::is_one(start) {
            let (paths, missing) = siblings(path);
            without_file = missing;
            let inputs = paths.into_iter().map(|path| Ok(buffered(File::open(path)?)));
            let merged = Merged::new(inputs.collect::<io::Result<_>>()?)?;
            let device = name.split(".blktrace.").next().unwrap_or_default().to_owned();
            (Form::Blktrace(merged), Head { device, ..Head::default() })
        } else {
            let device = name.split('.').next().unwrap_or_default().to_owned();
            (Form::Text(Text::new(buffered(file))), Head { device, ..Head::default() })
        };
        let (refused, is_behind_gap) = (Refused::default(), false);
        let (broken, wanted) = (None, None);
        Ok(Self { form, head, without_file, broken, wanted, refused, is_behind_gap, so_far })
    }

    /// The same of one of several devices in it, by major and minor number, instead of the one that comes first.
    ///
    /// # Errors
    /// As [`Source::open`], and for a trace that tells no numbers.
    pub fn open_one(path: &Path, device: Option<(u32, u32)>) -> Result<Self, TraceError> {
        let source = Self::open(path)?;
        let Some(numbers) = device else { return Ok(source) };
        let form = match source.form {
            Form::Own(_) => {
                let text = "a capture of fathom's is of one device; leave --device out";
                return Err(TraceError::Device(text.to_owned()));
            }
            Form::Blktrace(merged) => Form::Blktrace(merged.of_device(numbers)),
            Form::Text(text) => Form::Text(text.of_device(numbers)),
        };
        Ok(Self { form, wanted: device, ..source })
    }

    /// `fathom`, `blktrace` or `blkparse`.
    #[must_use]
    pub fn form(&self) -> &'static str {
        match self.form {
            Form::Own(_) => "fathom",
            Form::Blktrace(_) => "blktrace",
            Form::Text(_) => "blkparse",
        }
    }

    /// What it is of, as far as it says so.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// How much of it has been read; a copy shows that from elsewhere.
    #[must_use]
    pub fn so_far(&self) -> &SoFar {
        &self.so_far
    }

    /// Names of processes, as far as has been read.
    #[must_use]
    pub fn names(&self) -> &Names {
        match &self.form {
            Form::Own(reader) => reader.names(),
            Form::Blktrace(merged) => merged.names(),
            Form::Text(text) => text.names(),
        }
    }

    /// The next event, without requests that were refused at once. An error in the middle ends the trace, as [`Source::cut_off`] then says;
    /// one before the first event is an error of the whole.
    ///
    /// # Errors
    /// [`TraceError`] for a file that is something else.
    pub fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some((event, is_behind_gap)) = self.refused.next() {
                self.is_behind_gap |= is_behind_gap;
                return Ok(Some(event));
            }
            match self.read_event()? {
                Some(event) => {
                    let is_behind_gap = self.read_gap();
                    self.refused.add(event, is_behind_gap);
                }
                None if self.refused.is_empty() => return Ok(None),
                None => self.refused.end(),
            }
        }
    }

    fn read_event(&mut self) -> Result<Option<Event>, TraceError> {
        if self.broken.is_some() {
            return Ok(None);
        }
        let next = match &mut self.form {
            Form::Own(reader) => reader.next(),
            Form::Blktrace(merged) => merged.next(),
            Form::Text(text) => text.next(),
        };
        match next {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error @ TraceError::Foreign(_))) => Err(error),
            Some(Err(error)) => {
                self.broken = Some(format!("the file {error}"));
                Ok(None)
            }
        }
    }

    /// Why the trace ended before its end, when it has.
    #[must_use]
    pub fn cut_off(&self) -> Option<String> {
        const CUT: &str = "the file was cut off: its writer was killed, the disk was full, or it is still being written";
        const MORE: &str = "more stands behind its end, as when files were joined";
        let has_more = matches!(&self.form, Form::Own(reader) if reader.has_more());
        let is_cut = match &self.form {
            Form::Own(reader) => reader.is_cut_off(),
            Form::Blktrace(merged) => merged.is_cut_off(),
            Form::Text(text) => text.is_cut_off(),
        };
        let why = has_more.then_some(MORE).or(is_cut.then_some(CUT)).map(str::to_owned);
        self.broken.clone().or(why)
    }

    /// Events that were lost when it was made, and lines or records that were none.
    #[must_use]
    pub fn lost_and_skipped(&self) -> (u64, u64) {
        match &self.form {
            Form::Own(reader) => (reader.lost(), 0),
            Form::Blktrace(merged) => (merged.lost(), merged.skipped()),
            Form::Text(text) => (text.lost(), text.skipped()),
        }
    }

    /// Whether ends of requests may be missing in what has been read of it: events were lost, or it does not say whether any were. blktrace
    /// tells its losses on the terminal, and kernels write some events down nowhere. A capture of fathom's counts them.
    #[must_use]
    pub fn may_lack_ends(&self) -> bool {
        let Form::Own(reader) = &self.form else { return true };
        reader.lost() > 0 || reader.is_cut_off() || !reader.came_online().is_empty()
    }

    /// Tells where events were lost, as far as the trace says where; before each event that is studied, with its time.
    pub fn tell_losses(&mut self, study: &mut Study, time_ns: u64) {
        let hole = match &mut self.form {
            Form::Own(reader) => reader.take_hole(),
            Form::Blktrace(merged) => merged.take_hole(),
            Form::Text(_) => None,
        };
        if let Some((from_ns, to_ns)) = hole {
            study.hole(from_ns, to_ns);
        }
        if std::mem::take(&mut self.is_behind_gap) {
            study.gap(time_ns);
        }
    }

    fn read_gap(&mut self) -> bool {
        match &mut self.form {
            Form::Own(reader) => reader.take_gap(),
            Form::Blktrace(merged) => merged.take_gap(),
            Form::Text(text) => text.take_gap(),
        }
    }

    /// Reads all of it and says what it is.
    ///
    /// # Errors
    /// As [`Source::next_event`].
    pub fn characterise(
        &mut self,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<CaptureRecord, TraceError> {
        self.study(goes_on, None)
    }

    /// The same of the load as the device got it: what was merged is one request.
    ///
    /// # Errors
    /// As [`Source::next_event`].
    pub fn characterise_as_one(
        &mut self,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<CaptureRecord, TraceError> {
        self.study(goes_on, Some(AsOne::default()))
    }

    fn read_into(
        &mut self,
        study: &mut Study,
        mut as_one: Option<&mut AsOne>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), TraceError> {
        let mut count = 0u64;
        while let Some(event) = self.next_event()? {
            self.tell_losses(study, event.time_ns);
            let mut tell = |event: &Event| study.event(event, self.names());
            match &mut as_one {
                Some(as_one) => as_one.add(&event, &mut tell),
                None => tell(&event),
            }
            count += 1;
            if count.is_multiple_of(1 << 16) && !goes_on() {
                break;
            }
        }
        if let Some(as_one) = &mut as_one {
            as_one.end(&mut |event| study.event(event, self.names()));
        }
        Ok(())
    }

    fn study(
        &mut self,
        goes_on: &dyn Fn() -> bool,
        mut as_one: Option<AsOne>,
    ) -> Result<CaptureRecord, TraceError> {
        let mut study = Study::new(self.head.size_bytes);
        if self.head.started_ns > 0 {
            study.begin(self.head.started_ns);
        }
        if self.may_lack_ends() {
            study.had_losses();
        }
        self.read_into(&mut study, as_one.as_mut(), goes_on)?;
        let ended_ns = match &self.form {
            Form::Own(reader) => reader.ended_ns(),
            Form::Blktrace(_) | Form::Text(_) => None,
        };
        if self.may_lack_ends() {
            study.had_losses();
        }
        let mut record = study.finish(ended_ns);
        record.arrived = as_one.map_or(0, |as_one| as_one.arrived);
        (record.device, record.source) = (self.head.device.clone(), self.form().to_owned());
        (record.faults.lost, record.faults.skipped) = self.lost_and_skipped();
        let (others, number) = match &self.form {
            Form::Own(_) => (Others::default(), None),
            Form::Blktrace(merged) => {
                (merged.others().clone(), merged.device().map(|(a, b)| format!("{a},{b}")))
            }
            Form::Text(text) => (text.others().clone(), text.device().map(str::to_owned)),
        };
        if let Some((major, minor)) = self.wanted.filter(|_| record.events == 0) {
            let there = match others.devices.as_slice() {
                [] => "any device".to_owned(),
                some => some.join(" and of "),
            };
            let text = format!("it has nothing of device {major},{minor}, and some of {there}");
            return Err(TraceError::Device(text));
        }
        // The name of the file does not say which of them it is.
        if let Some(number) = number.filter(|_| others.events > 0) {
            record.device += &format!(" ({number})");
        }
        (record.faults.other_devices, record.faults.others) = (others.events, others.devices);
        record.faults.device_chosen = self.wanted.is_some();
        record.faults.cut_off = self.cut_off();
        record.faults.refused = self.refused.count();
        record.faults.without_file.clone_from(&self.without_file);
        if let Form::Blktrace(merged) = &self.form {
            record.faults.ended_early = merged.ended_early();
        }
        if let Form::Text(text) = &self.form {
            record.faults.before_first = text.before_first();
        }
        if let Form::Own(reader) = &self.form {
            record.faults.came_online = reader.came_online().to_vec();
            record.faults.in_no_round = reader.in_no_round();
        }
        Ok(record)
    }
}

/// What it is instead of a file.
fn no_file(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("it is a directory")
    } else if kind.is_fifo() || kind.is_socket() {
        Some("it is a pipe; write it to a file")
    } else {
        Some("it is a device; write what it has to a file")
    }
}

/// The files of all processors beside one of them, and the processors before the last that have none; that one alone when its name
/// says nothing.
fn siblings(path: &Path) -> (Vec<PathBuf>, Vec<u32>) {
    let alone = (vec![path.to_owned()], Vec::new());
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let Some((device, _)) = name.rsplit_once(".blktrace.") else { return alone };
    let of = |cpu| path.with_file_name(format!("{device}.blktrace.{cpu}"));
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for (cpu, path) in (0..CPUS_MAX).map(|cpu| (cpu, of(cpu))) {
        if path.is_file() { found.push((cpu, path)) } else { missing.push(cpu) }
    }
    let Some((last, _)) = found.last() else { return alone };
    missing.retain(|cpu| cpu < last);
    (found.into_iter().map(|(_, path)| path).collect(), missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::{Action, Class};
    use crate::trace::file::Writer;

    #[test]
    fn files_are_known_by_what_they_hold() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        let error = |name: &str, bytes: &[u8]| {
            std::fs::write(path(name), bytes).expect("written");
            let mut source = match Source::open(&path(name)) {
                Ok(source) => source,
                Err(error) => return error.to_string(),
            };
            source.characterise(&|| true).expect_err("no trace").to_string()
        };
        assert!(error("empty", b"").starts_with("is no trace: it is empty"));
        assert!(error("text", b"hello\n").starts_with("is no trace: no line of it is an event"));
        assert!(error("zeros", &[0; 100_000]).starts_with("is no trace"));
        assert!(Source::open(place.path()).is_err() && Source::open(&path("none")).is_err());
        std::fs::write(
            path("sda.txt"),
            "8,0 0 1 0.5 9 Q R 8 + 8 [x]\n8,0 0 2 0.7 0 C R 8 + 8 [0]\n",
        )
        .expect("written");
        let record = Source::open(&path("sda.txt"))
            .and_then(|mut s| s.characterise(&|| true))
            .expect("a trace");
        assert_eq!(
            (record.requests(), record.source.as_str(), record.device.as_str()),
            (1, "blkparse", "sda")
        );
        assert_eq!(record.window_ns, 200_000_000);
        let line = |device: &str| format!("{device} 0 1 0.5 9 Q R 8 + 8 [x]\n");
        std::fs::write(path("two.txt"), line("8,0") + &line("8,16")).expect("written");
        let record = Source::open(&path("two.txt"))
            .and_then(|mut s| s.characterise(&|| true))
            .expect("a trace");
        assert_eq!((record.requests(), record.faults.other_devices), (1, 1));
        assert_eq!(record.device, "two (8,0)", "which of them it is");
        assert_eq!(record.faults.others, ["8,16"]);
        let of = |name: &str, numbers| {
            Source::open_one(&path(name), Some(numbers)).and_then(|mut s| s.characterise(&|| true))
        };
        let other = of("two.txt", (8, 16)).expect("it is there");
        assert_eq!((other.requests(), other.device.as_str()), (1, "two (8,16)"));
        assert_eq!(other.faults.others, ["8,0"]);
        assert!(other.faults.device_chosen && !record.faults.device_chosen);
        let none = of("two.txt", (8, 32)).expect_err("not there").to_string();
        assert_eq!(none, "it has nothing of device 8,32, and some of 8,0 and of 8,16");
        let own = Writer::new(Vec::new(), &Head::default()).expect("begun");
        let (bytes, _) = own.finish(&Names::default()).expect("finished");
        std::fs::write(path("own.trace"), bytes).expect("written");
        let own = of("own.trace", (8, 0)).expect_err("of one device").to_string();
        assert!(own.contains("leave --device out"), "{own}");
    }

    /// Reads one after the other, 80 us each, with the lines of two processors one behind the other in blocks: an order in which nobody
    /// knows latencies and depth, which are there when the lines are sorted.
    #[test]
    fn lines_that_were_not_merged_hide_latencies_and_depth() {
        let place = tempfile::tempdir().expect("a directory");
        let mut lines: Vec<(u64, u64, String)> = Vec::new();
        for number in 0..3000u64 {
            let start_ns = number * 120_000;
            for (action, ns) in [("Q", start_ns), ("D", start_ns + 1000), ("C", start_ns + 80_000)]
            {
                let processor = (number / 2 + u64::from(action == "C")) % 2;
                let (s, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
                let (sector, by) =
                    (number * 7919 % 100_000 * 8, if action == "C" { "0" } else { "x" });
                let line =
                    format!("8,0 {processor} 1 {s}.{rest:09} 9 {action} R {sector} + 8 [{by}]");
                lines.push((ns, ns / 1_200_000 * 2 + processor, line));
            }
        }
        let path = place.path().join("sda.txt");
        let study = |lines: &[(u64, u64, String)]| {
            let text: Vec<&str> = lines.iter().map(|line| line.2.as_str()).collect();
            std::fs::write(&path, text.join("\n") + "\n").expect("written");
            let mut source = Source::open(&path).expect("a trace");
            source.characterise(&|| true).expect("readable")
        };
        lines.sort_by_key(|line| (line.1, line.0));
        let blocks = study(&lines);
        assert!(blocks.faults.back_ns_max < 2_000_000 && blocks.faults.late > 100);
        assert!(blocks.is_out_of_order() && !blocks.knows_depth(), "{:?}", blocks.faults);
        lines.sort_by_key(|line| line.0);
        let sorted = study(&lines);
        assert!(!sorted.is_out_of_order() && sorted.depth_quantile(1.0) == 1);
        // Here and there two processors write down in another order what happened at the same time.
        let at: Vec<usize> =
            (0..lines.len() - 1).filter(|at| lines[*at].2.contains(" Q R")).collect();
        at.iter().for_each(|at| lines.swap(*at, at + 1));
        let swapped = study(&lines);
        assert!(swapped.faults.late > 2000 && swapped.knows_depth(), "{:?}", swapped.faults);
    }

    /// Nobody writes into it, and nobody waits for that.
    #[test]
    fn a_pipe_is_refused_at_once() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(Source::open(&path).err().map(|e| e.to_string())));
        let told = told.recv_timeout(std::time::Duration::from_secs(20)).expect("no wait");
        assert!(told.is_some_and(|text| text.contains("it is a pipe; write it to a file")));
    }

    #[test]
    fn what_stands_behind_a_trace_is_told() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("twice.trace");
        let mut writer = Writer::new(Vec::new(), &Head::default()).expect("begun");
        let event = Event { class: Class::Read, sectors: 8, ..Event::new(Action::Queue, 5) };
        writer.push(&event, &Names::default()).expect("written");
        let (bytes, _) = writer.finish(&Names::default()).expect("finished");
        let found = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            let mut source = Source::open(&path).expect("a trace");
            let record = source.characterise(&|| true).expect("readable");
            (record.requests(), record.faults.cut_off)
        };
        assert_eq!(found(&bytes), (1, None));
        let (requests, why) = found(&[&bytes[..], &bytes].concat());
        assert!(
            requests == 1 && why.is_some_and(|why| why.starts_with("more stands behind its end"))
        );
    }

    /// A capture goes on when nothing happens any more: rates, and how long the device was busy, are of all of it.
    #[test]
    fn an_idle_end_is_a_part_of_a_capture() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("x.trace");
        let read = |ended_ns: u64| {
            let file = File::create(&path).expect("made");
            let head = Head { started_ns: 1_000_000_000, ..Head::default() };
            let mut writer = Writer::new(file, &head).expect("begun");
            for (action, ns) in [(Action::Queue, 0), (Action::Complete, 100_000_000)] {
                let event = Event::new(action, 1_000_000_000 + ns);
                let event = Event { class: Class::Read, sectors: 8, ..event };
                writer.push(&event, &Names::default()).expect("written");
            }
            writer.ended(ended_ns);
            writer.finish(&Names::default()).expect("finished");
            Source::open(&path).and_then(|mut s| s.characterise(&|| true)).expect("a trace")
        };
        let whole = read(5_000_000_000);
        assert_eq!((whole.window_ns, whole.busy_share()), (4_000_000_000, 0.025));
        assert_eq!(whole.depth_ns, [3_900_000_000, 100_000_000]);
        // Of older versions nobody knows it.
        assert_eq!((read(0).window_ns, read(0).busy_share()), (100_000_000, 1.0));
    }

    #[test]
    fn how_much_of_it_was_read_is_seen_from_elsewhere() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("all.txt");
        let one = "8,0 1 1 0.000001000 9 Q R 8 + 8 [dd]\n8,0 1 1 0.000001500 9 C R 8 + 8 [0]\n";
        std::fs::write(&path, one.repeat(10_000)).expect("written");
        let mut source = Source::open(&path).expect("a trace");
        let (so_far, all) = (source.so_far().clone(), 10_000 * one.len() as u64);
        assert_eq!(so_far.bytes(), (0, all));
        source.next_event().expect("readable").expect("an event");
        let (some, _) = so_far.bytes();
        assert!(0 < some && some < all, "{some} of {all}");
        source.characterise(&|| true).expect("readable");
        assert_eq!(so_far.bytes(), (all, all));
    }

    #[test]
    fn a_killed_writer_leaves_what_is_whole() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("x.trace");
        let file = File::create(&path).expect("made");
        let mut names = Names::default();
        names.number_of("x");
        let mut writer =
            Writer::new(file, &Head { device: "sdb".into(), ..Head::default() }).expect("begun");
        for number in 0..100_000u64 {
            let event = Event {
                class: Class::Read,
                sectors: 8,
                sector: number * 1000,
                ..Event::new(Action::Queue, number * 1000)
            };
            writer.push(&event, &names).expect("written");
        }
        // Never finished.
        drop(writer);
        let mut source = Source::open(&path).expect("a trace");
        let record = source.characterise(&|| true).expect("readable");
        assert!(record.events > 10_000 && record.faults.cut_off.is_some());
    }

    /// A reader that falls behind loses ends: the requests of these are not in flight for the rest of the trace.
    #[test]
    fn after_a_loss_nothing_is_in_flight_that_was_before() {
        let place = tempfile::tempdir().expect("a directory");
        let names = Names::default();
        let seen = |name: &str, lost: u64| {
            let path = place.path().join(name);
            let file = File::create(&path).expect("made");
            let mut writer = Writer::new(file, &Head::default()).expect("begun");
            let mut step = |action, number: u64, time_ns| {
                let (class, sector) = (Class::Read, number * 1000);
                let event = Event { class, sectors: 8, sector, ..Event::new(action, time_ns) };
                writer.push(&event, &names).expect("written");
                if number == 499 && action == Action::Issue {
                    writer.lost(lost);
                    writer.flush_round(&names).expect("written");
                }
            };
            for number in 0..6000 {
                step(Action::Queue, number, 10 * number);
                step(Action::Issue, number, 10 * number + 1);
                if number >= 500 {
                    step(Action::Complete, number, 10 * number + 9);
                }
            }
            writer.finish(&names).expect("finished");
            Source::open(&path).and_then(|mut s| s.characterise(&|| true)).expect("a trace")
        };
        let with_loss = seen("loss", 500);
        assert_eq!((with_loss.requests(), with_loss.faults.lost), (6000, 500));
        assert_eq!((with_loss.depth_quantile(0.5), with_loss.faults.abandoned), (1, 500));
        // A capture counts what it has lost. Where that is nothing, what does not end is in flight.
        let whole = seen("whole", 0);
        assert_eq!((whole.depth_quantile(0.5), whole.faults.abandoned), (501, 0));
    }

    /// A hole of three seconds, which the trace tells with the round in which it lies or at its end: what ends behind it at the place of
    /// a request from before it may be another one.
    #[test]
    fn what_waited_through_a_hole_has_no_latency() {
        let place = tempfile::tempdir().expect("a directory");
        let names = Names::default();
        for is_inside in [true, false] {
            let path = place.path().join("x.trace");
            let mut writer =
                Writer::new(File::create(&path).expect("made"), &Head::default()).expect("begun");
            for number in 0..3000u64 {
                let hole_ns = if number < 1500 { 0 } else { 3_000_000_000 };
                let start_ns = number * 100_000 + hole_ns;
                let is_last = number == 1499;
                for (action, ns) in
                    [(Action::Queue, 0), (Action::Issue, 10), (Action::Complete, 50_000)]
                {
                    let ns = start_ns
                        + ns
                        + if is_last && action == Action::Complete { 3_000_000_000 } else { 0 };
                    let event = Event { sector: number % 8 * 8, ..Event::new(action, ns) };
                    let event = Event { class: Class::Read, sectors: 8, ..event };
                    if is_last && action == Action::Complete && !is_inside {
                        writer.lost(100);
                        writer.flush_round(&names).expect("written");
                    }
                    writer.push(&event, &names).expect("written");
                }
                if number == 1600 && is_inside {
                    writer.lost(100);
                }
                if number % 700 == 699 {
                    writer.flush_round(&names).expect("written");
                }
            }
            writer.finish(&names).expect("finished");
            let mut source = Source::open(&path).expect("a trace");
            let found = source.characterise(&|| true).expect("readable");
            assert_eq!((found.requests(), found.faults.lost), (3000, 100));
            let read = found.class("read").expect("reads");
            for times in [&read.total_ns, &read.service_ns] {
                assert!(
                    times.max().is_some_and(|ns| ns < 60_000),
                    "{is_inside}: {:?}",
                    times.max()
                );
                assert_eq!(times.count(), 2999, "{is_inside}");
            }
        }
    }

    /// Kernels lose a few ends, and it shows a good while later how many: each of their requests counts for as long as the others took.
    #[test]
    fn a_few_lost_ends_do_not_make_a_load_deeper() {
        let place = tempfile::tempdir().expect("a directory");
        let names = Names::default();
        let seen = |depth: u64, lost: u64| {
            let path = place.path().join("x.trace");
            let mut writer =
                Writer::new(File::create(&path).expect("made"), &Head::default()).expect("begun");
            writer.lost(lost);
            let mut step = |action, number: u64, time_ns| {
                let (class, sector) = (Class::Read, number * 1000);
                let event = Event { class, sectors: 8, sector, ..Event::new(action, time_ns) };
                writer.push(&event, &names).expect("written");
            };
            // Always as many in flight; of 2000 requests the end of one is missing.
            for number in 0..40_000 {
                step(Action::Queue, number, 10 * number);
                step(Action::Issue, number, 10 * number + 1);
                let Some(ended) = (number + 1).checked_sub(depth) else { continue };
                if ended % 2000 != 1500 {
                    step(Action::Complete, ended, 10 * number + 9);
                }
            }
            writer.finish(&names).expect("finished");
            let mut source = Source::open(&path).expect("a trace");
            source.characterise(&|| true).expect("readable")
        };
        for depth in [1, 16] {
            let found = seen(depth, 20);
            assert!(found.knows_depth() && found.faults.abandoned >= 19);
            let told = [0.5, 0.9, 1.0].map(|share| found.depth_quantile(share));
            assert_eq!(told, [depth; 3]);
            let in_course = found.series.iter().map(|interval| interval.depth_max).max();
            assert_eq!(in_course, Some(depth));
        }
    }
}
