//! `/workspaces/{workspaceId}/activity`: the audit events of a workspace, filtered by member, kind and time.

use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use jiff::{Span, civil::Date, tz::TimeZone};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use service_api::{Timestamp, audit_events::EventName, page::Page};
use service_rules::email::Address;

use crate::{
    app::App,
    flows::{
        RequestMeta,
        audit::events::EventQuery,
        workspaces::{
            WorkspaceError,
            activity::{self, WorkspaceEvent},
            pages,
        },
    },
    http::{
        errors::ApiError,
        pages::{
            Moments, STYLESHEET, When, page,
            request_browser::RequestBrowser,
            see_other,
            workspace::{Visit, WorkspaceFrame, WorkspacePage},
        },
        path::PathId,
        query::Query,
    },
    locales::Texts,
    pagination::PageRequest,
};

const EVENTS_PER_PAGE: u16 = 50;

/// The first part of the names of events that a workspace can have.
const AREAS: [&str; 16] = [
    "member",
    "invitation",
    "workspace",
    "connection",
    "domain",
    "sso",
    "break_glass",
    "sign_in",
    "session",
    "consent",
    "cli_token",
    "mcp_tokens",
    "token",
    "refresh",
    "code",
    "content",
];

#[derive(Template)]
#[template(path = "pages/workspace/activity.html")]
struct ActivityPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    frame: WorkspaceFrame<'a>,
    filter: FilterShown<'a>,
    kinds: Vec<Kind>,
    events: Vec<ActivityShown>,
    /// Whether the page shows a part of the events only.
    part: bool,
    next: Option<String>,
}

/// A kind of event that can be chosen.
struct Kind {
    value: &'static str,
    name: String,
    chosen: bool,
}

/// What the form was sent with.
struct FilterShown<'a> {
    member: &'a str,
    since: &'a str,
    until: &'a str,
}

struct ActivityShown {
    at: When,
    what: String,
    user: Option<String>,
    member: Option<String>,
    by: Option<String>,
    address: Option<String>,
}

/// What an owner wants to see. An empty field selects all.
#[derive(Default)]
struct Filter {
    member: Option<Address>,
    event: Option<EventName>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Filter {
    /// Reads the form; `Err`: which sentence says what is wrong with it.
    fn read(t: &Texts, query: &Query) -> Result<Self, String> {
        let texts = &t.workspace.activity;
        let field = |name| query.get(name).filter(|text| !text.is_empty());
        let member = field("member").map(Address::parse).transpose();
        let event = field("event").map(|name| EventName::parse(name).ok_or(())).transpose();
        let day = |name| field(name).map(|text| text.parse::<Date>().map_err(|_| ())).transpose();
        let wrong_date = |()| texts.invalid_date.to_string();
        let since = day("since").map_err(wrong_date)?.and_then(beginning);
        // The day that is named is the last one that is shown.
        let until = day("until").map_err(wrong_date)?;
        let until = until.and_then(|day| day.checked_add(Span::new().days(1)).ok()).and_then(beginning);
        Ok(Self {
            member: member.map_err(|_| t.workspace.invalid_email.to_string())?,
            event: event.map_err(|()| texts.invalid_kind.to_string())?,
            since,
            until,
        })
    }
}

/// The beginning of a day in UTC.
fn beginning(day: Date) -> Option<Timestamp> {
    day.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp())
}

pub async fn show(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    RequestBrowser(browser): RequestBrowser,
    PathId(id): PathId,
    query: Query,
) -> Result<Response, ApiError> {
    let Some(browser) = browser else { return see_other("/sign-in") };
    let visit = Visit::of(&app, &meta, &browser, &id);
    let Some(actor) = visit.actor() else { return see_other("/sign-in") };
    let (t, here) = (visit.t, WorkspacePage::Activity.path(&id));
    let (filter, problem) = match Filter::read(t, &query) {
        Ok(filter) => (filter, None),
        Err(problem) => (Filter::default(), Some(problem)),
    };
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let Filter { member, event, since, until } = filter;
    let page_request = PageRequest { limit: EVENTS_PER_PAGE, cursor: query.get("cursor") };
    let wanted = EventQuery { event, about: None, since, until, page: page_request };
    let found = match activity::list(&app, &actor, &id, member.as_ref(), wanted).await {
        Ok(found) => found,
        Err(WorkspaceError::InvalidCursor(_)) => return see_other(&here),
        Err(failure) => return Err(failure.into()),
    };
    let header = pages::header(&app, &actor, &id).await?;
    // A filter that cannot be read selects nothing.
    let found = if problem.is_some() { Page { data: Vec::new(), next_cursor: None } } else { found };
    let field = |name| query.get(name).unwrap_or_default();
    let template = ActivityPage {
        t,
        title: &t.workspace.nav.activity,
        stylesheet: STYLESHEET,
        next: found.next_cursor.map(|cursor| format!("{here}?{}cursor={cursor}", chosen(&query))),
        frame: visit.frame(WorkspacePage::Activity, header, problem),
        filter: FilterShown { member: field("member"), since: field("since"), until: field("until") },
        kinds: kinds(t, event),
        events: found.data.into_iter().map(|event| shown(visit.moments(), event)).collect(),
        part: !chosen(&query).is_empty() || query.get("cursor").is_some(),
    };
    page(t, status, &template, None)
}

/// The fields of the form that are not empty, as the beginning of a query.
fn chosen(query: &Query) -> String {
    let fields = ["member", "event", "since", "until"].into_iter();
    let fields = fields.filter_map(|name| Some((name, query.get(name).filter(|value| !value.is_empty())?)));
    let mut text = String::new();
    for (name, value) in fields {
        text.extend([name, "="]);
        text.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
        text.push('&');
    }
    text
}

/// The kinds of events that a workspace can have, by their names.
fn kinds(t: &Texts, chosen: Option<EventName>) -> Vec<Kind> {
    let area = |name: &EventName| {
        let (area, _) = name.as_str().split_once('.').unwrap_or_default();
        AREAS.iter().position(|known| *known == area)
    };
    let mut names: Vec<_> = EventName::ALL.iter().filter_map(|name| Some((area(name)?, *name))).collect();
    names.sort_by_key(|(area, _)| *area);
    let kind = |(_, name): (usize, EventName)| Kind {
        value: name.as_str(),
        name: t.workspace_event(name.as_str()).to_owned(),
        chosen: chosen == Some(name),
    };
    names.into_iter().map(kind).collect()
}

fn shown(moments: Moments<'_>, event: WorkspaceEvent) -> ActivityShown {
    let t = moments.t;
    let WorkspaceEvent { named, user, member, by, invited } = event;
    let what = match (&named.name, named.role) {
        (None, Some(role)) if invited.is_some() => {
            let sentence = t.workspace.activity.invited.with("email", invited.unwrap_or_default());
            sentence.with("role", t.role(role)).to_string()
        }
        (Some(name), _) => format!("{}: {name}", t.workspace_event(&named.event.event)),
        (None, Some(role)) => format!("{}: {}", t.workspace_event(&named.event.event), t.role(role)),
        (None, None) => t.workspace_event(&named.event.event).to_owned(),
    };
    ActivityShown { at: moments.of(named.event.at), what, user, member, by, address: named.event.address }
}
