//! Plan files: read and checked, made into cells and an order, with their cost. Pure.
