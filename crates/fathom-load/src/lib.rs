//! The load engine
