//! The events of a user's account, page by page.

use service_api::{ids::UserId, page::Page};
use service_rules::space::Space;

use crate::{
    app::App,
    flows::{
        account::{AccountError, signed_in},
        audit::{
            events,
            named_events::{EventNames, EventsOf, NamedEvent},
        },
        sign_in::browser_session::Browser,
    },
    pagination::PageRequest,
    store,
};

const EVENTS_PER_PAGE: u16 = 25;

pub async fn list(app: &App, browser: &Browser, cursor: Option<&str>) -> Result<Page<NamedEvent>, AccountError> {
    page_of(app, signed_in(browser)?.user_id, PageRequest { limit: EVENTS_PER_PAGE, cursor }).await
}

/// One page of the events of this user's account.
pub(super) async fn page_of(
    app: &App,
    user_id: UserId,
    page: PageRequest<'_>,
) -> Result<Page<NamedEvent>, AccountError> {
    let query = events::EventQuery { event: None, about: None, since: None, until: None, page };
    let page = events::list(app, user_id, Space::Personal, &query).await?;
    let db = app.database.connect().await?;
    let workspaces = store::members::list_workspaces(&db, user_id).await?;
    let workspaces = workspaces.into_iter().map(|workspace| (workspace.id, workspace.name)).collect();
    let mut names = EventNames::new(&db, EventsOf::User(user_id), workspaces);
    let mut data = Vec::with_capacity(page.data.len());
    for event in page.data {
        data.push(names.name(event).await?);
    }
    Ok(Page { data, next_cursor: page.next_cursor })
}
