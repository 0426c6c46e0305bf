//! Where the command runs, gathered once, and what follows from it: pure decisions.

use std::io::IsTerminal as _;

use crate::environment::Environment;

#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub(crate) struct Terminal {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) dumb: bool,
    pub(crate) ci: bool,
    pub(crate) no_input: bool,
    /// `--json` or `--quiet`: somebody else reads.
    pub(crate) silent: bool,
}

impl Terminal {
    pub(crate) fn look(environment: &Environment, no_input: bool, silent: bool) -> Self {
        Self {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
            dumb: environment.dumb || environment.ascii,
            ci: environment.ci,
            no_input: no_input || environment.no_input,
            silent,
        }
    }

    /// Whether somebody is there to answer a question.
    pub(crate) const fn may_prompt(self) -> bool {
        self.stdin && self.stderr && !self.ci && !self.no_input
    }

    /// Whether something may move on the screen.
    pub(crate) const fn may_spin(self) -> bool {
        self.stderr && !self.ci && !self.silent && !self.dumb
    }

    /// Whether `✓` and its like can be shown on standard error.
    pub(crate) const fn may_draw(self) -> bool {
        self.stderr && !self.dumb
    }
}

/// How to sign in, as the user asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Wanted {
    /// The browser where there is one, else a code by mail
    #[default]
    Auto,
    /// In a browser
    Browser,
    /// With a code by mail
    Code,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// A browser of this machine comes back to this command.
    Browser,
    Code,
    /// A browser elsewhere, whose last address is pasted here.
    Paste,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ways {
    pub(crate) wanted: Wanted,
    /// A window could open here, and is wanted.
    pub(crate) browser: bool,
    /// The address must sign in with its organisation.
    pub(crate) sso: bool,
    /// The address can be sent a code.
    pub(crate) code: bool,
}

/// Which way to sign in. A code cannot stand in for an organisation's own sign-in.
pub(crate) const fn login_method(ways: Ways) -> Method {
    match ways {
        Ways { wanted: Wanted::Code, sso: false, .. } => Method::Code,
        Ways { browser: true, .. } => Method::Browser,
        Ways { wanted: Wanted::Auto, sso: false, code: true, .. } => Method::Code,
        _ => Method::Paste,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_sign_in_is_a_table() {
        use Method::{Browser, Code, Paste};
        let table = [
            // wanted, browser, sso, code → method
            (Wanted::Auto, true, false, true, Browser),
            (Wanted::Auto, true, true, true, Browser),
            (Wanted::Auto, true, false, false, Browser),
            (Wanted::Auto, false, false, true, Code),
            (Wanted::Auto, false, true, true, Paste),
            (Wanted::Auto, false, true, false, Paste),
            (Wanted::Auto, false, false, false, Paste),
            (Wanted::Browser, true, false, true, Browser),
            (Wanted::Browser, false, false, true, Paste),
            (Wanted::Browser, false, true, true, Paste),
            (Wanted::Code, true, false, true, Code),
            (Wanted::Code, false, false, true, Code),
            (Wanted::Code, true, true, true, Browser),
            (Wanted::Code, false, true, true, Paste),
        ];
        for (wanted, browser, sso, code, method) in table {
            let ways = Ways { wanted, browser, sso, code };
            assert_eq!(login_method(ways), method, "{ways:?}");
        }
    }

    #[test]
    fn questions_are_asked_only_where_somebody_answers() {
        for bits in 0..32_u8 {
            let on = |bit: u8| bits & 1 << bit != 0;
            let here = Terminal {
                stdin: on(0),
                stderr: on(1),
                ci: on(2),
                no_input: on(3),
                dumb: on(4),
                ..Terminal::default()
            };
            let both = on(0) && on(1);
            assert_eq!(here.may_prompt(), both && !on(2) && !on(3), "{here:?}");
        }
    }

    #[test]
    fn things_move_only_where_somebody_watches() {
        for bits in 0..32_u8 {
            let on = |bit: u8| bits & 1 << bit != 0;
            let here =
                Terminal { stdout: on(0), stderr: on(1), ci: on(2), silent: on(3), dumb: on(4), ..Terminal::default() };
            assert_eq!(here.may_spin(), on(1) && !on(2) && !on(3) && !on(4), "{here:?}");
        }
    }
}
