//! Counters of the kernel, read once in a while, and what happened between two readings.
