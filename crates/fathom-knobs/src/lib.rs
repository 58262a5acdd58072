//! Settings of kernel, devices, arrays and mounts: which there are, what they may be, and how they are changed so that they can
//! always be put back.
