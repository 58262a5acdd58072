//! What a tree looks like.
