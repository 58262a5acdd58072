//! The schedulers' own settings: `/sys/block/DEV/queue/iosched/`, there while the scheduler is active.

use crate::knob::{Group, Home, Knob, Persist, Rounding, Values, order};

const BASE: Knob = Knob {
    group: Group::Queue,
    order: order::SCHEDULER_OWN,
    couplings: "there only while its scheduler is active, and the kernel's default each time that it becomes so",
    persist: Persist::Udev,
    ..Knob::BASE
};

const NUMBER_MAX: i64 = i32::MAX as i64;

const fn deadline(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob { id, title, does, home: Home::Scheduler("mq-deadline", file), ..BASE }
}

const fn kyber(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob { id, title, does, home: Home::Scheduler("kyber", file), ..BASE }
}

const fn bfq(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob { id, title, does, home: Home::Scheduler("bfq", file), ..BASE }
}

pub const KNOBS: &[Knob] = &[
    Knob {
        unit: "ms",
        values: Values::Number(0, 3_600_000),
        rounding: Rounding::Tick,
        ..deadline(
            "mq-deadline.read_expire",
            "read_expire",
            "longest wait of a read",
            "After it a read goes first. Default 500.",
        )
    },
    Knob {
        unit: "ms",
        values: Values::Number(0, 3_600_000),
        rounding: Rounding::Tick,
        ..deadline(
            "mq-deadline.write_expire",
            "write_expire",
            "longest wait of a write",
            "After it a write goes first. Default 5000.",
        )
    },
    Knob {
        unit: "batches",
        values: Values::Number(0, NUMBER_MAX),
        ..deadline(
            "mq-deadline.writes_starved",
            "writes_starved",
            "read batches before a write batch",
            "More of them favour reads. Default 2.",
        )
    },
    Knob {
        unit: "requests",
        values: Values::Number(0, NUMBER_MAX),
        ..deadline(
            "mq-deadline.fifo_batch",
            "fifo_batch",
            "requests of a batch",
            "Large batches give rate, small ones latency. Default 16.",
        )
    },
    Knob {
        values: Values::Switch,
        ..deadline(
            "mq-deadline.front_merges",
            "front_merges",
            "merging in front",
            "Whether a request is looked up that begins where the new one ends; rare, costs a little. Default 1.",
        )
    },
    Knob {
        unit: "ms",
        values: Values::Number(1, 3_600_000),
        rounding: Rounding::Tick,
        kernels: "5.14 and later; the newest refuse 0",
        ..deadline(
            "mq-deadline.prio_aging_expire",
            "prio_aging_expire",
            "longest wait of low priorities",
            "After it lower priority classes go although higher ones wait. Default 10000.",
        )
    },
    Knob {
        unit: "requests",
        values: Values::Number(1, 1 << 20),
        kernels: "5.14 to 6.18; gone in newer ones",
        couplings: "set to the same number by each write to block.nr_requests; therefore written after it",
        ..deadline(
            "mq-deadline.async_depth",
            "async_depth",
            "requests for writes and asynchronous reads",
            "Fewer keep room for synchronous reads. Default: all of block.nr_requests.",
        )
    },
    Knob {
        unit: "ns",
        values: Values::Number(1, 60_000_000_000),
        ..kyber(
            "kyber.read_lat_nsec",
            "read_lat_nsec",
            "latency aim of reads",
            "Other requests are held back until it is met. Default 2000000.",
        )
    },
    Knob {
        unit: "ns",
        values: Values::Number(1, 60_000_000_000),
        ..kyber(
            "kyber.write_lat_nsec",
            "write_lat_nsec",
            "latency aim of synchronous writes",
            "Other requests are held back until it is met. Default 10000000.",
        )
    },
    Knob {
        values: Values::Switch,
        ..bfq(
            "bfq.low_latency",
            "low_latency",
            "favour interactive programs",
            "1 raises the share of programs that have just begun or are soft real-time. 0 for throughput and for fair comparisons. Default 1.",
        )
    },
    Knob {
        values: Values::Switch,
        order: order::SCHEDULER_FIRST,
        couplings: "1 raises bfq.slice_idle to at least 8 ms; therefore written before it",
        ..bfq(
            "bfq.strict_guarantees",
            "strict_guarantees",
            "one request at a time",
            "1 keeps shares exact at the cost of nearly all throughput. Default 0.",
        )
    },
    Knob {
        unit: "ms",
        values: Values::Number(0, 4_293),
        couplings: "the same as bfq.slice_idle_us, in coarser steps",
        trap: "0 on SSDs and arrays: idling costs most of their throughput.",
        ..bfq(
            "bfq.slice_idle",
            "slice_idle",
            "wait for the next request of the same program",
            "Longer waits give sequential readers their disk; shorter ones keep devices busy. Default 8.",
        )
    },
    Knob {
        unit: "us",
        values: Values::Number(0, 4_293_000),
        order: order::SCHEDULER_LAST,
        couplings: "the same as bfq.slice_idle, in finer steps; written after it",
        ..bfq(
            "bfq.slice_idle_us",
            "slice_idle_us",
            "the same wait in microseconds",
            "Longer waits give sequential readers their disk; shorter ones keep devices busy. Default 8000.",
        )
    },
    Knob {
        unit: "ms",
        values: Values::Number(1, 60_000),
        rounding: Rounding::Tick,
        ..bfq(
            "bfq.timeout_sync",
            "timeout_sync",
            "longest turn of a program",
            "Long turns give rate, short ones latency. Default about 124.",
        )
    },
    Knob {
        unit: "sectors",
        values: Values::Number(0, NUMBER_MAX),
        words: &[("0", "computed from the speed of the device")],
        order: order::SCHEDULER_LAST,
        ..bfq(
            "bfq.max_budget",
            "max_budget",
            "largest turn of a program",
            "How much a program may transfer in one turn. Default 0.",
        )
    },
    Knob {
        unit: "KiB",
        values: Values::Number(0, NUMBER_MAX),
        ..bfq(
            "bfq.back_seek_max",
            "back_seek_max",
            "longest way back",
            "How far backwards a request may lie and still go next. Default 16384.",
        )
    },
    Knob {
        values: Values::Number(1, NUMBER_MAX),
        ..bfq(
            "bfq.back_seek_penalty",
            "back_seek_penalty",
            "price of the way back",
            "A way back counts so many times as long as one forward. Default 2.",
        )
    },
    Knob {
        unit: "ms",
        values: Values::Number(1, 3_600_000),
        rounding: Rounding::Tick,
        ..bfq(
            "bfq.fifo_expire_sync",
            "fifo_expire_sync",
            "longest wait of a synchronous request",
            "After it the request goes first within its program. Default 125.",
        )
    },
    Knob {
        unit: "ms",
        values: Values::Number(1, 3_600_000),
        rounding: Rounding::Tick,
        ..bfq(
            "bfq.fifo_expire_async",
            "fifo_expire_async",
            "longest wait of an asynchronous request",
            "After it the request goes first within its program. Default 250.",
        )
    },
];
