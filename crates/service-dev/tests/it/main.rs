//! Tests of the development server as a program, on free ports and in directories of their own.

mod machine;
mod serving;
mod starting;
mod terminal;
