//! Who may call what: every endpoint of the contract's table, without exception.
