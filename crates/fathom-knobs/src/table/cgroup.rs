//! What control groups do to I/O.

use crate::knob::{Access, Group, Home, Knob, Persist, Rounding, Values, order};

const BASE: Knob = Knob { persist: Persist::Tmpfiles, ..Knob::BASE };

const fn of_group(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
    access: Access,
) -> Knob {
    Knob {
        id,
        title,
        does,
        home: Home::Group(file),
        values: Values::Shown,
        access,
        persist: Persist::Other(
            "a unit's IOReadBandwidthMax=, IOWriteBandwidthMax=, IOReadIOPSMax=, IOWeight=, IODeviceLatencyTargetSec= (systemd.resource-control)",
        ),
        kernels: "cgroup v2",
        ..BASE
    }
}

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "cgroup.io_cost_qos",
        title: "iocost: what latency the device must keep",
        does: "Turns iocost on for a device and bounds how far its speed may be varied to keep the latencies.",
        home: Home::RootGroup("io.cost.qos"),
        group: Group::Queue,
        order: order::LIMITS,
        couplings: "switching it on turns block.wbt_lat_usec off unless somebody has set it",
        values: Values::Line,
        rounding: Rounding::Adds,
        kernels: "5.4 and later with iocost, cgroup v2 with the io controller",
        inexact: "that the device had no line: afterwards it has one that says enable=0",
        trap: "Words: enable= ctrl=user rpct= rlat= wpct= wlat= min= max=; min and max are % of the model's speed, not of time. Lines belong to \
               device numbers, which change at a boot. iocost taxes every request of the device.",
        ..BASE
    },
    Knob {
        id: "cgroup.io_cost_model",
        title: "iocost: what the device can do",
        does: "The speeds from which iocost computes the price of a request.",
        home: Home::RootGroup("io.cost.model"),
        values: Values::Line,
        rounding: Rounding::Adds,
        kernels: "5.4 and later with iocost, cgroup v2 with the io controller",
        inexact: "that the device had no line: afterwards it has one that says ctrl=auto",
        trap: "Words: ctrl=user model=linear rbps= rseqiops= rrandiops= wbps= wseqiops= wrandiops=.",
        ..BASE
    },
    of_group(
        "cgroup.io_max",
        "io.max",
        "limits of a group",
        "Bytes and operations per second that a group may read and write on a device.",
        Access::Refused(
            "it belongs to one group, not to the machine: set it for the measured job with cgroup_max=rbps=...,riops=...",
        ),
    ),
    of_group(
        "cgroup.io_weight",
        "io.weight",
        "share of a group",
        "The share of a device against other groups, with bfq or iocost; with other schedulers it does nothing, silently.",
        Access::Refused(
            "it belongs to one group, not to the machine: set it for the measured job with cgroup_weight=N",
        ),
    ),
    of_group(
        "cgroup.io_latency",
        "io.latency",
        "latency aim of a group",
        "Other groups are slowed until the group's latency is met.",
        Access::Refused(
            "it belongs to one group, not to the machine; systemd sets it: IODeviceLatencyTargetSec=",
        ),
    ),
];
