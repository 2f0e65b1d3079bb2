//! The program from outside: its commands, and the library where a command would need a terminal.

mod pull;
