//! How a loop device shows its file: set with `losetup`, and watched.

use crate::knob::{Access, Home, Knob, Persist, Values};

const BASE: Knob = Knob {
    values: Values::Shown,
    access: Access::Fixed("the file in sysfs only shows it; losetup sets it"),
    persist: Persist::Other("the losetup that sets the device up"),
    ..Knob::BASE
};

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "loop.dio",
        title: "direct I/O to the file",
        does: "With 1 the file is read and written past the page cache; with 0 what is read may come from memory.",
        home: Home::Device("loop/dio"),
        access: Access::Fixed("losetup --direct-io=on|off DEV sets it"),
        ..BASE
    },
    Knob {
        id: "loop.offset",
        title: "where in the file the device begins",
        does: "The first byte of the device is this byte of the file.",
        home: Home::Device("loop/offset"),
        unit: "bytes",
        ..BASE
    },
    Knob {
        id: "loop.sizelimit",
        title: "how much of the file the device shows",
        does: "The device ends after so many bytes; with 0 where the file ends.",
        home: Home::Device("loop/sizelimit"),
        unit: "bytes",
        ..BASE
    },
];
