//! The shape of the code: rules that the compiler does not check.
