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
    flows::audit_events::{self, Asked},
    http::{
        caller::{Audit, Read},
        error::{ApiError, Unreadable},
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
    let asked = Asked {
        event: wanted(query, "event", EventName::parse, || {
            let known: Vec<_> = EventName::ALL.iter().map(|name| name.as_str()).collect();
            format!("is not recorded; recorded are: {}.", known.join(", "))
        })?,
        about: wanted(query, "userId", |text| text.parse().ok(), || "is not a user's id, such as user_01h2….".into())?,
        since: wanted(query, "since", moment, not_a_moment)?,
        until: wanted(query, "until", moment, not_a_moment)?,
        limit: paging::limit(query)?,
        cursor: query.get("cursor"),
    };
    let (user_id, place) = (space.caller.credential().user_id, space.entered.place);
    Ok(Json(audit_events::list(&app, user_id, place, &asked).await?))
}

fn wanted<T>(
    query: &Query,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    wrong: impl Fn() -> String,
) -> Result<Option<T>, ApiError> {
    let value = query.get(name).map(|text| parse(text).ok_or_else(|| Unreadable::Query(format!("{name} {}", wrong()))));
    Ok(value.transpose()?)
}

/// A moment, or a date: its beginning in UTC.
fn moment(text: &str) -> Option<Timestamp> {
    let date = || text.parse::<Date>().ok().filter(|date| date.to_string() == text)?.to_zoned(TimeZone::UTC).ok();
    let moment: Option<Timestamp> = text.parse().ok().or_else(|| date().map(|day| day.timestamp()));
    moment.filter(|moment| *moment >= Timestamp::UNIX_EPOCH)
}

fn not_a_moment() -> String {
    "is neither a date such as 2027-01-15 nor a moment such as 2027-01-15T08:00:00Z.".into()
}
