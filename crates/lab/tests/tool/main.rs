//! The binary, and the texts of the repository: one program, since each more is linked anew.

mod bad_input;
mod guide;
mod map;
mod replay;
mod settings;
mod words;
