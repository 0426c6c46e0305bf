//! The result of a check, and how all of them are reported.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::{context::Context, failure::Failure};

/// The result of one check.
pub(super) struct Check {
    name: &'static str,
    ok: bool,
    /// Whether the command works without it. If such a check fails, nothing is wrong.
    optional: bool,
    message: String,
}

impl Check {
    /// A check that must succeed.
    pub(super) fn required(name: &'static str, result: Result<String, String>) -> Self {
        let ok = result.is_ok();
        Self { name, ok, optional: false, message: result.unwrap_or_else(|message| message) }
    }

    /// A check of something that the command works without.
    pub(super) fn optional(name: &'static str, result: Result<String, String>) -> Self {
        Self { optional: true, ..Self::required(name, result) }
    }

    const fn is_problem(&self) -> bool {
        !self.ok && !self.optional
    }

    /// The mark in front of the message: a symbol on a terminal, letters elsewhere.
    const fn mark(&self, use_symbols: bool) -> &'static str {
        match (self.ok, self.optional, use_symbols) {
            (true, _, true) => "✓",
            (true, _, false) => "ok",
            (false, true, true) => "–",
            (false, true, false) => "--",
            (false, false, true) => "✗",
            (false, false, false) => "!!",
        }
    }
}

/// Prints the checks, one per line. `object` has further members for JSON output. The exit code is 1 if there is a problem.
pub(super) fn report(context: &Context, checks: &[Check], mut object: Value) -> Result<ExitCode, Failure> {
    let terminal = context.terminal();
    let use_symbols = terminal.stdout && !terminal.dumb;
    let lines: Vec<_> = checks.iter().map(|check| format!("{} {}", check.mark(use_symbols), check.message)).collect();
    let objects: Vec<Value> = checks
        .iter()
        .map(|check| json!({ "name": check.name, "ok": !check.is_problem(), "message": check.message }))
        .collect();
    let ok = !checks.iter().any(Check::is_problem);
    object["ok"] = ok.into();
    object["checks"] = objects.into();
    context.output.result(&object, &lines.join("\n"))?;
    Ok(ExitCode::from(u8::from(!ok)))
}
