//! Empty: the benches are in `benches`.
