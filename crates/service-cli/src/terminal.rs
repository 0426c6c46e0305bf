//! What is known about the terminal, gathered once, and the decisions that follow from it. They are pure functions.

use std::io::IsTerminal as _;

use crate::environment::Environment;

/// The width of a terminal that does not say how wide it is.
const DEFAULT_COLUMNS: usize = 80;

/// Whether the standard streams are terminals, and how the command may use them.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub(crate) struct Terminal {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// The terminal shows ASCII only.
    pub(crate) dumb: bool,
    pub(crate) ci: bool,
    pub(crate) no_input: bool,
    /// `--json` or `--quiet`: messages are not shown.
    pub(crate) silent: bool,
    /// The width of the terminal that standard output is.
    pub(crate) columns: usize,
}

impl Terminal {
    pub(crate) fn detect(environment: &Environment, no_input: bool, silent: bool) -> Self {
        Self {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
            dumb: environment.dumb_terminal || environment.ascii_locale,
            ci: environment.ci,
            no_input: no_input || environment.no_input,
            silent,
            columns: read_columns(),
        }
    }

    /// Whether a user can answer a prompt.
    pub(crate) const fn can_prompt(self) -> bool {
        self.stdin && self.stderr && !self.ci && !self.no_input
    }

    /// Whether a user sees what the command waits for.
    pub(crate) const fn can_report_progress(self) -> bool {
        self.stderr && !self.ci && !self.silent
    }

    /// Whether a spinner can be shown.
    pub(crate) const fn can_animate(self) -> bool {
        self.can_report_progress() && !self.dumb
    }

    /// Whether symbols such as `✓` can be shown on standard error.
    pub(crate) const fn can_show_symbols(self) -> bool {
        self.stderr && !self.dumb
    }
}

/// The width of the terminal, or 80 columns if it does not say.
fn read_columns() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS)
}

/// The sign-in method that the user requested with `--method`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RequestedMethod {
    /// Browser if available, otherwise an email code
    #[default]
    Auto,
    /// Sign in with a browser
    Browser,
    /// Sign in with a code sent by email
    Code,
}

/// How a user signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInMethod {
    /// A browser on this machine, which redirects back to the command.
    Browser,
    /// A code sent by email.
    Code,
    /// A browser on another machine, whose final URL the user pastes.
    Paste,
}

/// The facts that decide how a user signs in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MethodFacts {
    pub(crate) requested: RequestedMethod,
    /// A browser can open on this machine, and the user allows it.
    pub(crate) browser: bool,
    /// The user must sign in with the identity provider of their organization.
    pub(crate) sso: bool,
    /// The service offers a code by email.
    pub(crate) code: bool,
}

/// Chooses the sign-in method. An email code never replaces a required single sign-on.
pub(crate) const fn choose_method(facts: MethodFacts) -> SignInMethod {
    match facts {
        MethodFacts { requested: RequestedMethod::Code, sso: false, .. } => SignInMethod::Code,
        MethodFacts { browser: true, .. } => SignInMethod::Browser,
        MethodFacts { requested: RequestedMethod::Auto, sso: false, code: true, .. } => SignInMethod::Code,
        _ => SignInMethod::Paste,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_in_method_follows_from_the_facts() {
        use SignInMethod::{Browser, Code, Paste};
        let table = [
            // requested, browser, sso, code → method
            (RequestedMethod::Auto, true, false, true, Browser),
            (RequestedMethod::Auto, true, true, true, Browser),
            (RequestedMethod::Auto, true, false, false, Browser),
            (RequestedMethod::Auto, false, false, true, Code),
            (RequestedMethod::Auto, false, true, true, Paste),
            (RequestedMethod::Auto, false, true, false, Paste),
            (RequestedMethod::Auto, false, false, false, Paste),
            (RequestedMethod::Browser, true, false, true, Browser),
            (RequestedMethod::Browser, false, false, true, Paste),
            (RequestedMethod::Browser, false, true, true, Paste),
            (RequestedMethod::Code, true, false, true, Code),
            (RequestedMethod::Code, false, false, true, Code),
            (RequestedMethod::Code, true, true, true, Browser),
            (RequestedMethod::Code, false, true, true, Paste),
        ];
        for (requested, browser, sso, code, method) in table {
            let facts = MethodFacts { requested, browser, sso, code };
            assert_eq!(choose_method(facts), method, "{facts:?}");
        }
    }

    #[test]
    fn prompts_need_a_terminal_and_permission() {
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
            assert_eq!(here.can_prompt(), both && !on(2) && !on(3), "{here:?}");
        }
    }

    #[test]
    fn progress_needs_a_terminal_and_permission() {
        for bits in 0..32_u8 {
            let on = |bit: u8| bits & 1 << bit != 0;
            let here =
                Terminal { stdout: on(0), stderr: on(1), ci: on(2), silent: on(3), dumb: on(4), ..Terminal::default() };
            assert_eq!(here.can_report_progress(), on(1) && !on(2) && !on(3), "{here:?}");
            assert_eq!(here.can_animate(), on(1) && !on(2) && !on(3) && !on(4), "{here:?}");
        }
    }
}
