//! The format of log lines: that of `tracing-subscriber`, with the request that a line is about.
//!
//! The request is added here, and only to lines that are written: a span of `tracing` would be formatted for every request.

use std::fmt::{Result, Write as _};

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        self, FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Json, Writer},
    },
    registry::LookupSpan,
};

use super::current_request;

/// Formats a line, and adds the request that it is about.
pub struct WithRequest<F> {
    of_request: F,
    of_task: F,
}

impl WithRequest<Format<Json>> {
    /// Lines of JSON.
    #[must_use]
    pub fn json() -> Self {
        let of_task = fmt::format().with_target(false).json().flatten_event(true).with_span_list(false);
        Self { of_request: of_task.clone().with_current_span(false), of_task }
    }
}

impl WithRequest<Format<Full>> {
    /// Lines of text.
    #[must_use]
    pub fn text() -> Self {
        let of_task = fmt::format().with_target(false);
        Self { of_request: of_task.clone(), of_task }
    }
}

/// How a format adds fields to a line that is complete.
pub trait AddFields {
    fn add<'f>(&self, line: &mut String, fields: impl Iterator<Item = (&'static str, &'f str)>) -> Result;
}

impl AddFields for Format<Json> {
    /// Adds them as a span has them. Their values need no escapes: they are ids, and names that are known when the service is
    /// compiled.
    fn add<'f>(&self, line: &mut String, fields: impl Iterator<Item = (&'static str, &'f str)>) -> Result {
        let complete = line.trim_end();
        let inner = complete.strip_suffix('}').ok_or(std::fmt::Error)?.len();
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
    fn add<'f>(&self, line: &mut String, fields: impl Iterator<Item = (&'static str, &'f str)>) -> Result {
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
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> Result {
        let Some(request) = current_request::current() else {
            return self.of_task.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.of_request.format_event(context, Writer::new(&mut line), event)?;
        self.of_request.add(&mut line, request.fields())?;
        writer.write_str(&line)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use futures_util::FutureExt as _;
    use tracing::subscriber::with_default;
    use tracing_subscriber::{layer::SubscriberExt as _, registry};

    use super::{super::current_request::CurrentRequest, *};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Logs one line for a request, in a span of a library, and one for a task.
    fn log_two(subscriber: impl Subscriber + Send + Sync + 'static) {
        with_default(subscriber, || {
            let request = CurrentRequest::new("req_1".into(), "/v1/whoami", None);
            let work = async {
                let _entered = tracing::error_span!("library", inner = 7).entered();
                tracing::warn!(answer = 42, "Something is odd");
            };
            current_request::within(request, work).now_or_never().unwrap();
            let _entered = tracing::error_span!("task", name = "mailer").entered();
            tracing::warn!("Something else");
        });
    }

    #[test]
    fn a_line_has_the_request_or_the_task_that_it_is_about() {
        let (json, text) = (Lines::default(), Lines::default());
        let (to_json, to_text) = (json.clone(), text.clone());
        let layer = fmt::layer().json().event_format(WithRequest::json());
        log_two(registry().with(layer.with_writer(move || to_json.clone())));
        let layer = fmt::layer().event_format(WithRequest::text());
        log_two(registry().with(layer.with_writer(move || to_text.clone())));

        let json = String::from_utf8(json.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let request = serde_json::json!({ "name": "request", "request.id": "req_1", "route": "/v1/whoami" });
        assert_eq!((&lines[0]["span"], &lines[0]["answer"]), (&request, &42.into()));
        assert_eq!(json.matches("\"span\"").count(), 2, "{json}");
        assert_eq!(lines[1]["message"], "Something else");

        let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
        let [first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(first.ends_with("Something is odd answer=42 request.id=req_1 route=/v1/whoami"), "{first}");
        assert!(second.contains("mailer") && !second.contains("req_1"), "{second}");
    }
}
