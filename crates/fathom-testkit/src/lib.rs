//! Test kit: capability probe, loop devices, file systems, oracles
