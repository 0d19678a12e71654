//! Scaled runs, for their direction.
