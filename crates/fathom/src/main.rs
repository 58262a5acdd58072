//! fathom: measures storage and says whether the figures can be trusted.
fn main() {}
