//! `service api --paginate`: reads every page of a list, and prints each before it reads the next.

use std::process::ExitCode;

use serde_json::Value;
use service_api::page::MAX_LIMIT;
use url::form_urlencoded;

use super::{add_to_query, has_parameter, print_response, status_exit_code};
use crate::{
    connection::Connection,
    context::Context,
    explain,
    failure::{Failure, FailureCode},
    jq, output,
};

/// Prints `{"data":[…]}` with the items of all pages or, with a filter, what it selects from each page.
///
/// Only one page is in memory. If a later page fails, the object stays open, so that a script does not take it for complete.
pub(super) async fn run(context: &Context, connection: &Connection, path: &str) -> Result<ExitCode, Failure> {
    let path =
        if has_parameter(path, "limit") { path.to_owned() } else { add_to_query(path, &format!("limit={MAX_LIMIT}")) };
    let mut printer = Printer { filter: context.output.jq.as_deref(), printed: None };
    let mut cursor = None::<String>;
    loop {
        let page_path = match &cursor {
            Some(cursor) => add_to_query(&path, &form_query("cursor", cursor)),
            None => path.clone(),
        };
        let response =
            connection.call(context, async |client, token| client.raw("GET", &page_path, token, None).await).await;
        let response = match response {
            Err(failure) => return printer.abort(failure),
            Ok(response) => response,
        };
        if !(200..300).contains(&response.status) {
            // On the first page nothing is printed yet, so the response is printed like that of any other request.
            let code = status_exit_code(response.status);
            if cursor.is_none() {
                print_response(context, &response)?;
                return Ok(ExitCode::from(code));
            }
            return printer.abort(explain::explain_raw(&connection.origin, response.status, &response.body));
        }
        let mut page: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let next = page["nextCursor"].as_str().map(str::to_owned);
        if !page["data"].is_array() || (next.is_some() && next == cursor) {
            return printer.abort(explain::unexpected_response(&connection.origin));
        }
        // A reader that closed the pipe, as `head -1` does, wants no more pages.
        if !printer.print(&mut page)? {
            return Ok(ExitCode::SUCCESS);
        }
        match next {
            Some(next) => cursor = Some(next),
            None => return printer.end().map(|()| ExitCode::SUCCESS),
        }
    }
}

fn form_query(name: &str, value: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish()
}

/// Prints pages as one object.
struct Printer<'a> {
    filter: Option<&'a str>,
    /// Whether an item was printed; none before the first page.
    printed: Option<bool>,
}

impl Printer<'_> {
    /// Prints a page. Returns whether the reader wants more.
    fn print(&mut self, page: &mut Value) -> Result<bool, Failure> {
        if let Some(filter) = self.filter {
            let results = jq::run_filter(filter, page)?;
            let lines: String = results.iter().flat_map(|result| [result.as_str(), "\n"]).collect();
            return output::print_chunk(lines.as_bytes());
        }
        let mut text = if self.printed.is_none() { String::from("{\"data\":[") } else { String::new() };
        let mut has_items = self.printed.unwrap_or_default();
        for item in page["data"].as_array().into_iter().flatten() {
            text.push_str(if has_items { ",\n" } else { "\n" });
            text.push_str(&item.to_string());
            has_items = true;
        }
        self.printed = Some(has_items);
        output::print_chunk(text.as_bytes())
    }

    /// Closes the object.
    fn end(&self) -> Result<(), Failure> {
        match (self.filter, self.printed) {
            (None, Some(true)) => output::print_chunk(b"\n]}\n").map(drop),
            (None, _) => output::print_chunk(b"]}\n").map(drop),
            (Some(_), _) => Ok(()),
        }
    }

    /// Ends the line that was begun, and fails.
    fn abort(&self, failure: Failure) -> Result<ExitCode, Failure> {
        if self.printed.is_none() {
            return Err(failure);
        }
        output::print_chunk(b"\n")?;
        Err(Failure::new(failure.code, format!("The list is incomplete. {}", failure.message))
            .with_details_of(&failure)
            .hint("Run the command again"))
    }
}

/// Rejects requests that have no pages.
pub(super) fn check(method: &str, takes_cursor: Option<bool>) -> Result<(), Failure> {
    if method != "GET" {
        return Err(Failure::new(FailureCode::Usage, "--paginate works with GET only."));
    }
    if takes_cursor == Some(false) {
        return Err(Failure::new(FailureCode::Usage, "This path isn't a list. Leave --paginate out."));
    }
    Ok(())
}
