//! A bare server of HTTP for one page.
/// x
pub struct Listener;
