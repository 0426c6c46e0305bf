//! `/v1/audit-events`

use axum::{Json, extract::State};
use jiff::{civil::Date, tz::TimeZone};
use service_api::{
    Timestamp,
    audit_events::{AuditEvent, EventName},
    page::Page,
};

use crate::{
    app::App,
    flows::audit::events::{self, EventQuery},
    http::{
        caller::{Audit, Read},
        errors::{ApiError, MalformedRequest},
        paging,
        query::Query,
        space::OwnSpace,
    },
};

pub async fn list(
    State(app): State<App>,
    OwnSpace(space): OwnSpace<Read<Audit>>,
) -> Result<Json<Page<AuditEvent>>, ApiError> {
    let query = &space.query;
    let wanted = EventQuery {
        event: parameter(query, "event", EventName::parse, || {
            let known: Vec<_> = EventName::ALL.iter().map(|name| name.as_str()).collect();
            format!("must be one of: {}.", known.join(", "))
        })?,
        about: parameter(
            query,
            "userId",
            |text| text.parse().ok(),
            || "must be a user ID, such as user_01h2….".into(),
        )?,
        since: parameter(query, "since", moment, not_a_moment)?,
        until: parameter(query, "until", moment, not_a_moment)?,
        page: paging::page(query)?,
    };
    Ok(Json(events::list(&app, space.actor().user_id, space.entered.space, &wanted).await?))
}

/// Reads a parameter of the query, if there is one.
fn parameter<T>(
    query: &Query,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    wrong: impl Fn() -> String,
) -> Result<Option<T>, ApiError> {
    let value =
        query.get(name).map(|text| parse(text).ok_or_else(|| MalformedRequest::Query(format!("{name} {}", wrong()))));
    Ok(value.transpose()?)
}

/// A moment, or a date: its beginning in UTC.
fn moment(text: &str) -> Option<Timestamp> {
    let date = || text.parse::<Date>().ok().filter(|date| date.to_string() == text)?.to_zoned(TimeZone::UTC).ok();
    let moment: Option<Timestamp> = text.parse().ok().or_else(|| date().map(|day| day.timestamp()));
    moment.filter(|moment| *moment >= Timestamp::UNIX_EPOCH)
}

fn not_a_moment() -> String {
    "must be a date such as 2027-01-15, or a time such as 2027-01-15T08:00:00Z.".into()
}
