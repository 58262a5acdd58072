//! Pages as they are.
