//! The words of the command line.
