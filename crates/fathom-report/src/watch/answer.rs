//! What a stored watch comes to.
