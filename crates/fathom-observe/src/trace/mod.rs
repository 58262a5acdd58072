//! Every single request of a block device, as the kernel's tracepoints tell it.
