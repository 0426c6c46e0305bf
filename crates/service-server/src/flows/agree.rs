//! The person agrees, or not, that a client gets access, and the client gets its answer.

use serde_json::json;
use service_api::{audit_events::EventName, ids::WorkspaceId, scope::Scopes, workspaces::PERSONAL};
use service_rules::{
    Timestamp,
    authorization::{self, Answer, Refusal, Request},
    clients::Kind,
    codes::Code,
    consent::{self, Agreed},
    lifetimes, redirect,
    signing::later,
};

use crate::{
    app::App,
    database::Connection,
    digest::sha256,
    failure::Failure,
    flows::{Asker, browser::Browser},
    mint,
    store::{
        self,
        authorization_codes::Worth,
        browser_sessions::Person,
        consents::{About, Consent},
        sign_in_flows::Flow,
    },
};

/// What the person is shown.
pub struct Question {
    pub client: String,
    /// Who says that this is its name.
    pub vouched_by: Option<String>,
    pub host: String,
    pub unproven: bool,
    /// Their own machine.
    pub local: bool,
    pub asked: Scopes,
    pub agreed: Scopes,
    pub spaces: Vec<Space>,
}

pub struct Space {
    /// As the form names it.
    pub value: String,
    pub name: String,
    pub usual: bool,
}

#[derive(Debug)]
pub enum NotDone {
    /// Nobody is signed in, or not lately enough.
    SignIn,
    /// The client has had its answer.
    Finished,
    /// The space is not one of this person's.
    Space,
}

/// Who is asked what.
struct Asked<'a> {
    browser: &'a Browser,
    person: &'a Person,
    request: &'a Request,
    host: String,
}

impl<'a> Asked<'a> {
    fn of(browser: &'a Browser, flow: &'a Flow) -> Result<Self, Failure<NotDone>> {
        let person = browser.person.as_ref().ok_or(Failure::Refused(NotDone::SignIn))?;
        let request = flow.request.as_ref().ok_or(Failure::Refused(NotDone::Finished))?;
        Ok(Self { browser, person, request, host: redirect::host(&request.redirect_uri) })
    }

    fn about(&self) -> About<'_> {
        About {
            user_id: self.person.user_id,
            client_id: &self.request.client_id,
            redirect_host: &self.host,
            audience: &self.request.audience,
        }
    }
}

/// What the person has to decide.
pub async fn question(app: &App, browser: &Browser, flow: &Flow) -> Result<Question, Failure<NotDone>> {
    let asked = Asked::of(browser, flow)?;
    if flow.finished {
        return Err(Failure::Refused(NotDone::Finished));
    }
    let db = app.database.connect().await?;
    let client = store::clients::find(&db, &asked.request.client_id).await?;
    let client = client.filter(|client| !client.disabled).ok_or(Failure::Refused(NotDone::Finished))?;
    let agreed = store::consents::find(&db, asked.about()).await?;
    let usual = agreed.as_ref().and_then(|agreed| agreed.workspace_id);
    let mut spaces = vec![Space { value: PERSONAL.into(), name: "Your personal space".into(), usual: usual.is_none() }];
    for (id, name) in store::memberships::list_workspaces(&db, asked.person.user_id).await? {
        spaces.push(Space { value: id.to_string(), name, usual: usual == Some(id) });
    }
    if !spaces.iter().any(|space| space.usual) {
        spaces[0].usual = true;
    }
    let agreed = agreed.map_or(Scopes::NONE, |agreed| agreed.scopes);
    let uri = &asked.request.redirect_uri;
    let vouched_by = match client.kind {
        Kind::Dynamic => Some("It registered itself under this name.".to_owned()),
        Kind::Document => Some(format!("It is described by {}.", redirect::host(&client.id))),
        Kind::FirstParty | Kind::Registered => None,
    };
    Ok(Question {
        vouched_by,
        unproven: consent::is_unproven(&client, uri),
        local: redirect::check(uri) == Ok(redirect::Kind::Loopback),
        client: client.name,
        host: asked.host,
        asked: asked.request.scopes.without(agreed),
        agreed,
        spaces,
    })
}

/// The person agreed: remembers it, and makes a code. Returns where the browser goes.
pub async fn allow(
    app: &App,
    asker: &Asker,
    browser: &mut Browser,
    flow: &Flow,
    space: &str,
) -> Result<String, Failure<NotDone>> {
    let workspace_id: Option<WorkspaceId> = match space {
        PERSONAL => None,
        id => Some(id.parse().map_err(|_| Failure::Refused(NotDone::Space))?),
    };
    let db = app.database.begin().await?;
    let location = {
        let asked = Asked::of(browser, flow)?;
        if let Some(id) = workspace_id
            && store::memberships::find_role(&db, asked.person.user_id, id).await?.is_none()
        {
            return Err(Failure::Refused(NotDone::Space));
        }
        let agreed = store::consents::find(&db, asked.about()).await?;
        let agreed = agreed.map(|consent| Agreed { scopes: consent.scopes });
        let scopes = consent::granted(asked.request.scopes, agreed);
        let now = app.clock.now();
        store::consents::replace(&db, asked.about(), &Consent { scopes, workspace_id }, now).await?;
        let mut event = asker.event(EventName::ConsentGranted, now, json!({ "scopes": scopes, "host": asked.host }))?;
        event.user_id = Some(asked.person.user_id);
        event.client_id = Some(&asked.request.client_id);
        event.workspace_id = workspace_id;
        store::audit_events::insert(&db, &event).await?;
        finish(app, &db, &asked, flow, (scopes, workspace_id)).await?
    };
    let user_id = browser.person.as_ref().map(|person| person.user_id);
    browser.renew(app, &db, user_id).await?;
    db.commit().await?;
    Ok(location)
}

/// The person has agreed before; `None`: what they agreed to is no longer there.
pub async fn go_on_as_before(app: &App, browser: &Browser, flow: &Flow) -> anyhow::Result<Option<String>> {
    let Ok(asked) = Asked::of(browser, flow) else { return Ok(None) };
    let db = app.database.begin().await?;
    let Some(agreed) = store::consents::find(&db, asked.about()).await? else { return Ok(None) };
    if let Some(id) = agreed.workspace_id
        && store::memberships::find_role(&db, asked.person.user_id, id).await?.is_none()
    {
        return Ok(None);
    }
    // No more than is asked for now, whatever was agreed to before.
    let granted = (asked.request.scopes, agreed.workspace_id);
    match finish(app, &db, &asked, flow, granted).await {
        Ok(location) => {
            db.commit().await?;
            Ok(Some(location))
        }
        Err(Failure::Refused(_)) => Ok(None),
        Err(Failure::Broken(broken)) => Err(broken),
    }
}

/// The person did not agree.
pub async fn deny(app: &App, browser: &Browser, flow: &Flow) -> Result<String, Failure<NotDone>> {
    let asked = Asked::of(browser, flow)?;
    let db = app.database.connect().await?;
    if !store::sign_in_flows::mark_finished(&db, flow.id, app.clock.now()).await? {
        return Err(Failure::Refused(NotDone::Finished));
    }
    let (uri, state) = (&asked.request.redirect_uri, asked.request.state.as_deref());
    Ok(authorization::response(uri, state, &app.config.base_url, &Answer::Refused(Refusal::AccessDenied)))
}

/// Ends the flow, and makes the one code that comes of it.
async fn finish(
    app: &App,
    db: &Connection,
    asked: &Asked<'_>,
    flow: &Flow,
    (scopes, workspace_id): (Scopes, Option<WorkspaceId>),
) -> Result<String, Failure<NotDone>> {
    app.revocations.check()?;
    let now: Timestamp = app.clock.now();
    if !store::users::lock_enabled(db, asked.person.user_id).await? {
        return Err(Failure::Refused(NotDone::SignIn));
    }
    if !store::sign_in_flows::mark_finished(db, flow.id, now).await? {
        return Err(Failure::Refused(NotDone::Finished));
    }
    let secret = mint::authorization_code()?;
    let code = Code {
        client_id: asked.request.client_id.clone(),
        redirect_uri: asked.request.redirect_uri.clone(),
        challenge: asked.request.challenge.clone(),
        expires_at: later(now, lifetimes::AUTHORIZATION_CODE),
        wrong_verifiers: 0,
        used: false,
    };
    let (user_id, browser_id) = (asked.person.user_id, asked.browser.id);
    let worth = Worth { user_id, browser_id, scopes, audience: asked.request.audience.clone(), workspace_id };
    store::authorization_codes::insert(db, &sha256(secret.expose()), &code, &worth).await?;
    let (uri, state) = (&asked.request.redirect_uri, asked.request.state.as_deref());
    Ok(authorization::response(uri, state, &app.config.base_url, &Answer::Code(secret.expose())))
}
