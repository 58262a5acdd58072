//! The storage stack as a graph, host facts, rules
