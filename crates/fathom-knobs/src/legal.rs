//! What a setting may be: from the table alone, and at a place, where device and kernel narrow it.

use crate::error::KnobError;
use crate::knob::{Knob, Rounding, Values};
use crate::names;
use crate::site::{Site, Spot, active_scheduler, active_word};
use fathom_base::suggest;
use fathom_base::units::parse_size;
use fathom_model::change::knob::KnobPlace;
use fathom_sys::hostinfo;
use fathom_sys::sysroot::SysRoot;
use std::path::Path;

/// Requests that a scheduler takes at the most: sixteen times the kernel's default of 128.
const SCHEDULED_MAX: i64 = 2048;

/// Fewer the kernel does not take.
const REQUESTS_MIN: i64 = 4;

/// KiB of a page. Larger pages exist on machines that storage seldom lies on; there the kernel's answer is compared.
const PAGE_KIB: i64 = 4;

/// Memory that the kernel keeps free: of more than a tenth of all it would kill what runs, fathom among it.
const MIN_FREE: &str = "vm.min_free_kbytes";
const MIN_FREE_DIVISOR: u64 = 10;

/// Checks a value by the table alone, where no device is known yet.
///
/// # Errors
/// [`KnobError::Refused`] for what fathom does not set, [`KnobError::Value`] for what it cannot be.
pub fn check_value(knob: &Knob, value: &str) -> Result<(), KnobError> {
    check_access(knob)?;
    let value = &in_unit(knob, value);
    narrowed(knob.values, knob, value).map_err(|reason| wrong(knob, String::new(), value, reason))
}

/// A size with its unit, such as `100MB`, as the number that the kernel takes; everything else as it is.
#[must_use]
pub fn in_unit(knob: &Knob, value: &str) -> String {
    let unit_bytes = match knob.unit {
        "bytes" => 1,
        "KiB" => 1024,
        _ => return value.to_owned(),
    };
    let has_unit = value.ends_with(|last: char| last.is_ascii_alphabetic());
    let size = parse_size(value).ok().filter(|bytes| has_unit && bytes % unit_bytes == 0);
    size.map_or_else(|| value.to_owned(), |bytes| (bytes / unit_bytes).to_string())
}

/// Refuses what fathom does not set.
///
/// # Errors
/// [`KnobError::Refused`] with the reason and what to do instead.
pub fn check_access(knob: &Knob) -> Result<(), KnobError> {
    use crate::knob::Access::{Fixed, Refused, Set};
    match knob.access {
        Set => Ok(()),
        Refused(reason) | Fixed(reason) => {
            Err(KnobError::Refused { knob: knob.id.to_owned(), reason: reason.to_owned() })
        }
    }
}

fn wrong(knob: &Knob, at: String, value: &str, reason: String) -> KnobError {
    KnobError::Value { knob: knob.id.to_owned(), at, value: value.to_owned(), reason }
}

/// What other settings will be when this one is written; none for those that stay as they are.
pub type Asked<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Checks a value at a place.
///
/// # Errors
/// [`KnobError::Value`].
pub fn check_at(
    root: &SysRoot,
    place: &KnobPlace,
    knob: &Knob,
    value: &str,
    asked: Asked<'_>,
) -> Result<(), KnobError> {
    let fail = |reason| Err(wrong(knob, format!(" of {}", place.name()), value, reason));
    let Ok(site) = Site::find(root, place) else { return Ok(()) };
    if let Err(reason) = narrowed(values_at(root, &site, knob, asked), knob, value) {
        return fail(reason);
    }
    if knob.values == Values::Discard
        && let Some(reason) = discard_is_lost(&site)
    {
        return fail(reason);
    }
    Ok(())
}

/// What the setting may be at a place, in words: `none, mq-deadline, bfq`, `4 to 128 requests`.
#[must_use]
pub fn legal_at(root: &SysRoot, place: &KnobPlace, knob: &Knob) -> String {
    let values =
        Site::find(root, place).map_or(knob.values, |site| values_at(root, &site, knob, &|_| None));
    in_words(values, knob)
}

/// What the setting may be anywhere, in words.
#[must_use]
pub fn legal(knob: &Knob) -> String {
    in_words(knob.values, knob)
}

/// What the setting may be at a place, in the simplest form that says it.
fn values_at(root: &SysRoot, site: &Site, knob: &Knob, asked: Asked<'_>) -> Values {
    let beside = |name: &str| beside(root, site, knob, name);
    match knob.values {
        Values::UpTo(min, file) => {
            let other =
                asked(&format!("{}.{file}", knob.family())).and_then(|text| text.parse().ok());
            other.or_else(|| beside(file)).map_or(knob.values, |max| Values::Number(min, max))
        }
        Values::Requests => requests(site, asked),
        Values::Number(min, max) if knob.id == MIN_FREE => {
            let memory_kib = hostinfo::meminfo_bytes(root, "MemTotal").map(|bytes| bytes / 1024);
            let share = memory_kib.and_then(|kib| i64::try_from(kib / MIN_FREE_DIVISOR).ok());
            Values::Number(min, share.map_or(max, |share| share.clamp(min, max)))
        }
        other => other,
    }
}

/// A number in a file of the same directory.
fn beside(root: &SysRoot, site: &Site, knob: &Knob, name: &str) -> Option<i64> {
    let Spot::Files(files) = site.spot(root, knob)? else { return None };
    root.value(files.first()?.parent()?.join(name))
}

fn requests(site: &Site, asked: Asked<'_>) -> Values {
    let Some(device) = site.device() else { return Values::Requests };
    let scheduler = asked("block.scheduler").or_else(|| active_scheduler(device));
    let reserved: i64 = device.value("mq/0/nr_reserved_tags").unwrap_or(0);
    let min = REQUESTS_MIN.max(reserved + 1);
    let tags: Option<i64> = device.value("mq/0/nr_tags");
    match scheduler.as_deref() {
        Some("none") | None => Values::Number(min, tags.unwrap_or(SCHEDULED_MAX)),
        Some(_) => Values::Number(min, SCHEDULED_MAX),
    }
}

/// Why the present limit of discards could not be written back.
fn discard_is_lost(site: &Site) -> Option<String> {
    let device = site.device()?;
    let granularity: i64 = device.value("queue/discard_granularity").filter(|g| *g > 0)?;
    let now: i64 = device.value("queue/discard_max_bytes")?;
    (now % granularity != 0).then(|| {
        format!(
            "the present {now} is no multiple of the granularity ({granularity} bytes), so the kernel would not let it be put back"
        )
    })
}

fn narrowed(values: Values, knob: &Knob, value: &str) -> Result<(), String> {
    if let Some((today, reason)) = names::old_value(knob.id, value) {
        return Err(format!("{reason}; today's equivalent is {today}"));
    }
    let number = || -> Result<i64, String> {
        value.parse().map_err(|_| format!("it must be {}", in_words(values, knob)))
    };
    let within = |min: i64, max: i64| {
        let number = number()?;
        let is_within = (min..=max).contains(&number);
        is_within.then_some(()).ok_or_else(|| format!("it must be {}", in_words(values, knob)))
    };
    let of = |words: &[&str]| {
        let hint = || suggest::hint(value, words.iter().copied());
        words
            .contains(&value)
            .then_some(())
            .ok_or_else(|| format!("it must be one of {}{}", words.join(", "), hint()))
    };
    match values {
        Values::Switch => of(&["0", "1"]),
        Values::Number(min, max) => within(min, max).and_then(|()| whole_pages(knob, value)),
        Values::UpTo(min, _) => within(min, i64::MAX),
        Values::Requests => within(REQUESTS_MIN, i64::from(u32::MAX)),
        Values::Discard => within(1, i64::from(u32::MAX)),
        Values::ZeroOr(_) => within(0, i64::MAX),
        Values::Words(words) => of(words),
        Values::NumberOr(min, max, words) => {
            if words.contains(&value) {
                Ok(())
            } else {
                within(min, max)
            }
        }
        Values::Listed => is_word(value),
        Values::Line => is_line(value),
        Values::Shown => Err("it is only shown".to_owned()),
    }
}

/// A read-ahead below a page would be none at all.
fn whole_pages(knob: &Knob, value: &str) -> Result<(), String> {
    let is_lost = knob.rounding == Rounding::PagesKib
        && value.parse::<i64>().is_ok_and(|kib| kib > 0 && kib < PAGE_KIB);
    if is_lost {
        return Err(format!(
            "the kernel rounds it down to whole pages of {PAGE_KIB} KiB, which is 0"
        ));
    }
    Ok(())
}

fn is_word(value: &str) -> Result<(), String> {
    let is_word = !value.is_empty()
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(&byte));
    is_word.then_some(()).ok_or_else(|| "it must be one word".to_owned())
}

fn is_line(value: &str) -> Result<(), String> {
    let is_pair = |word: &str| {
        word.split_once('=').is_some_and(|(key, value)| {
            !key.is_empty()
                && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                && !value.is_empty()
                && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.')
        })
    };
    let mut words = value.split_ascii_whitespace().peekable();
    let is_line = words.peek().is_some() && words.all(is_pair);
    is_line
        .then_some(())
        .ok_or_else(|| "it must be key=value words, such as enable=1 ctrl=auto".to_owned())
}

fn in_words(values: Values, knob: &Knob) -> String {
    let unit = if knob.unit.is_empty() { String::new() } else { format!(" {}", knob.unit) };
    let range = |min: i64, max: i64| match max {
        max if max >= i64::from(i32::MAX) => format!("{min} or more{unit}"),
        max => format!("{min} to {max}{unit}"),
    };
    match values {
        Values::Switch => "0 or 1".to_owned(),
        Values::Number(min, max) => range(min, max),
        Values::UpTo(min, file) => format!("{min}{unit} to what {file} says"),
        Values::Requests => {
            format!(
                "{REQUESTS_MIN} to the depth of the hardware queue, with a scheduler to {SCHEDULED_MAX}"
            )
        }
        Values::Discard => {
            "a multiple of discard_granularity up to discard_max_hw_bytes".to_owned()
        }
        Values::ZeroOr(file) => format!("0 or what {file} says"),
        Values::Words(words) => words.join(", "),
        Values::NumberOr(min, max, words) => {
            format!("{}, or {}", range(min, max), words.join(", "))
        }
        Values::Listed => "what the device lists".to_owned(),
        Values::Line => "key=value words".to_owned(),
        Values::Shown => "only shown".to_owned(),
    }
}

/// The words that a device lists for a setting; empty for others.
#[must_use]
pub fn listed(root: &SysRoot, place: &KnobPlace, knob: &Knob) -> Vec<String> {
    let text = || {
        let site = Site::find(root, place).ok()?;
        let Spot::Files(files) = site.spot(root, knob)? else { return None };
        root.text(files.first()?)
    };
    if knob.values != Values::Listed {
        return Vec::new();
    }
    let text: String = text().unwrap_or_default();
    text.split_ascii_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

/// True when what is read is what was asked for, as far as the kernel keeps it.
#[must_use]
pub fn matches(knob: &Knob, asked: &str, now: &str) -> bool {
    let numbers = || Some((asked.parse::<i64>().ok()?, now.parse::<i64>().ok()?));
    if asked == now || numbers().is_some_and(|(asked, now)| asked == now) {
        return true;
    }
    match (knob.rounding, numbers()) {
        (Rounding::PagesKib, Some((asked, now))) => asked / PAGE_KIB * PAGE_KIB == now,
        (Rounding::Tick, Some((asked, now))) => (asked - now).abs() <= TICK_MS_MAX,
        (Rounding::Share, Some((asked, now))) => {
            (asked - now).abs() <= SHARE_BYTES_MAX.max(asked / 20)
        }
        (Rounding::Stands, Some((asked, _))) => asked < 0,
        (Rounding::Adds, _) => has_words(asked, now),
        _ => false,
    }
}

/// What a share of one millionth comes to on a machine with much memory.
const SHARE_BYTES_MAX: i64 = 256 << 10;

/// The longest tick: a kernel with 100 of them per second.
const TICK_MS_MAX: i64 = 10;

/// True when everything that was asked for is there: `zstd` in `zstd:3`, `enable=1` in `enable=1 ctrl=auto`.
fn has_words(asked: &str, now: &str) -> bool {
    if asked == "none" {
        return now.starts_with("enable=0") || now.starts_with("ctrl=auto");
    }
    let is_number = |word: &str, known: &str| {
        let (Some((key, value)), Some((other, now))) =
            (word.split_once('='), known.split_once('='))
        else {
            return false;
        };
        let numbers = value.parse::<f64>().ok().zip(now.parse::<f64>().ok());
        key == other && numbers.is_some_and(|(value, now)| (value - now).abs() < 0.005)
    };
    asked.split_ascii_whitespace().all(|word| {
        let is_it = |known: &str| {
            let rest = known.strip_prefix(word);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
                || is_number(word, known)
        };
        now.split_ascii_whitespace().any(is_it)
    })
}

/// True when the directory of a scheduler's settings will be there.
pub fn has_scheduler(root: &SysRoot, place: &KnobPlace, scheduler: &str) -> bool {
    let device = Site::find(root, place).ok().and_then(|site| site.device().cloned());
    let text = device.and_then(|device| device.text(Path::new("queue/scheduler")));
    text.is_some_and(|text| {
        active_word(&text) == scheduler
            || text.split_ascii_whitespace().any(|word| word.trim_matches(['[', ']']) == scheduler)
    })
}

#[cfg(test)]
#[path = "legal_tests.rs"]
mod tests;
