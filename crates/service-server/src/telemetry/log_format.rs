//! The format of log lines: that of `tracing-subscriber`, with the request that a line is about.
//!
//! The request is added here, and only to lines that are written: a span of `tracing` would be formatted for every request.

use std::fmt::{self, Write as _};

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Json, Writer},
    },
    registry::LookupSpan,
};

use super::current_request;

/// Formats a line, and adds the request that it is about.
pub(super) struct WithRequest<F>(pub(super) F);

/// How a format adds fields to a line that is complete.
pub(super) trait AddFields {
    fn add<'f>(&self, line: &mut String, fields: impl Iterator<Item = (&'static str, &'f str)>) -> fmt::Result;
}

impl AddFields for Format<Json> {
    /// Adds them as a span has them. Their values need no escapes: they are ids, and names that are known when the service is
    /// compiled.
    fn add<'f>(&self, line: &mut String, fields: impl Iterator<Item = (&'static str, &'f str)>) -> fmt::Result {
        let complete = line.trim_end();
        let inner = complete.strip_suffix('}').ok_or(fmt::Error)?.len();
        line.truncate(inner);
        line.push_str(",\"span\":{");
        for (name, value) in fields {
            write!(line, "\"{name}\":\"{value}\",")?;
        }
        line.push_str("\"name\":\"request\"}}\n");
        Ok(())
    }
}

impl AddFields for Format<Full> {
    fn add<'f>(&self, line: &mut String, fields: impl Iterator<Item = (&'static str, &'f str)>) -> fmt::Result {
        line.truncate(line.trim_end().len());
        for (name, value) in fields {
            write!(line, " {name}={value}")?;
        }
        line.push('\n');
        Ok(())
    }
}

impl<S, N, F> FormatEvent<S, N> for WithRequest<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N> + AddFields,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        // A background task has a span of its own.
        let request = if context.lookup_current().is_none() { current_request::current() } else { None };
        let Some(request) = request else { return self.0.format_event(context, writer, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        self.0.add(&mut line, request.fields())?;
        writer.write_str(&line)
    }
}
