//! The domains of a workspace: owners claim them, and prove each by a TXT record in DNS.
//!
//! 1. An owner claims a domain and gets the record to add. Its value depends on the workspace, the domain and the time of the
//!    claim, so that nothing is stored about it and a record proves one claim only. A record that is forgotten in DNS proves
//!    nothing when the domain is claimed again.
//! 2. The owner asks for a check. DNS is asked before the transaction begins.
//! 3. If the record is there, the domain counts for this workspace, and its users are sent to its connection.
//! 4. If another workspace has verified the domain before, its record decides: if it is gone from DNS, that workspace loses
//!    the domain; if it is still there, nothing changes.

use serde_json::json;
use service_api::{
    audit_events::EventName,
    connections::{Change, ClaimDomain, DnsRecord, DomainStatus, UpdateDomain, WorkspaceDomain},
    ids::{Id as _, WorkspaceId},
    page::Page,
};
use service_rules::{
    Timestamp,
    domains::{Domain, DomainError, FAILURES_UNTIL_LOST, has_record},
    lifetimes,
    limits::Limited,
    signing::later,
    space::Right,
};
use uuid::Uuid;

use crate::{
    app::App,
    crypto::address_shard,
    database::{self, Connection},
    flows::{
        Actor,
        rate_limit::Limit,
        sign_in::{email_key, step_up::RecentSignIn},
        sso::{
            connection_error::ConnectionError,
            connections,
            domain_checks::{self, Loss},
            routes,
        },
        workspaces::{WorkspaceError, access},
    },
    store::{self, deletions::ContentKey, workspace_domains::StoredDomain},
};

/// The maximum number of domains of a workspace.
pub const MAX_DOMAINS: usize = 20;
/// The kind of a domain among deletions.
const DELETED_DOMAIN: &str = "domain";

/// Why a request about domains was refused.
#[derive(Debug, thiserror::Error)]
pub enum DomainClaimError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Invalid(#[from] DomainError),
    #[error("the workspace does not claim this domain")]
    NotFound,
    #[error("the workspace claims this domain already")]
    AlreadyClaimed,
    #[error("the workspace claims as many domains as a workspace may")]
    TooMany,
    /// The other workspace's record is still in DNS. It is no secret: DNS shows it.
    #[error("another workspace has verified the domain, and its record is still there")]
    VerifiedElsewhere { domain: String, record: String },
    #[error("DNS did not answer")]
    DnsUnanswered,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Defect(#[from] anyhow::Error),
}

/// A domain of a workspace, as a request names both.
#[derive(Clone, Copy, Debug)]
pub struct DomainPath<'a> {
    pub workspace_id: &'a str,
    pub domain: &'a str,
}

impl DomainPath<'_> {
    /// The domain in its one spelling. A workspace has none that cannot be claimed.
    fn read_domain(self) -> Result<Domain, DomainClaimError> {
        Domain::parse(self.domain).map_err(|_| DomainClaimError::NotFound)
    }
}

/// Lists the domains of a workspace, in order.
pub async fn list(app: &App, actor: &Actor<'_>, id: &str) -> Result<Page<WorkspaceDomain>, DomainClaimError> {
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, id, Right::Own).await?;
    let mut data = Vec::new();
    for domain in store::workspace_domains::list(&db, id).await? {
        data.push(view(app, &db, domain).await?);
    }
    Ok(Page { data, next_cursor: None })
}

/// Claims a domain. It does not count before its record is found.
pub async fn claim(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    id: &str,
    claim: &ClaimDomain,
) -> Result<WorkspaceDomain, DomainClaimError> {
    let now = app.clock.now();
    let domain = Domain::parse(&claim.domain)?;
    domain.check_not_public_mail(&app.config.sso.public_mail_domains)?;
    let db = app.database.begin().await?;
    let workspace_id = access::lock(app, &db, actor, id, Right::Own).await?;
    let claimed = store::workspace_domains::list(&db, workspace_id).await?;
    if claimed.iter().any(|known| known.domain == domain.as_str()) {
        return Err(DomainClaimError::AlreadyClaimed);
    }
    if claimed.len() >= MAX_DOMAINS {
        return Err(DomainClaimError::TooMany);
    }
    if let Some(connection_id) = claim.connection_id {
        connections::find_in(&db, workspace_id, &connection_id.to_string()).await?;
    }
    let new = StoredDomain {
        workspace_id,
        domain: domain.as_str().to_owned(),
        connection_id: claim.connection_id,
        created_by: actor.user_id,
        created_at: now,
        verified_at: None,
        checked_at: None,
        next_check_at: None,
        failures: 0,
        last_error: None,
    };
    store::workspace_domains::insert(&db, &new).await?;
    store::deletions::delete(&db, deletion(app, &db, workspace_id, &domain).await?).await?;
    let details = json!({ "domain": new.domain, "connection": new.connection_id });
    actor.event(EventName::DomainClaimed, now, details)?.in_workspace(workspace_id).insert(&db).await?;
    let shown = view(app, &db, new).await?;
    db.commit().await?;
    Ok(shown)
}

/// Chooses the connection of a domain. Without one nothing changes.
pub async fn update(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    path: DomainPath<'_>,
    update: &UpdateDomain,
) -> Result<WorkspaceDomain, DomainClaimError> {
    let domain = path.read_domain()?;
    let db = app.database.begin().await?;
    let id = access::lock(app, &db, actor, path.workspace_id, Right::Own).await?;
    routes::lock(app, &db, domain.as_str()).await?;
    let now = app.clock.now();
    let mut stored = find_in(&db, id, &domain).await?;
    let wanted = match update.connection_id {
        Change::Keep => stored.connection_id,
        Change::Remove => None,
        Change::Set(connection_id) => Some(connections::find_in(&db, id, &connection_id.to_string()).await?.id),
    };
    // The row is written also without a change, so that a repeated request is confirmed only if the first one was.
    store::workspace_domains::update_connection(&db, id, domain.as_str(), wanted).await?;
    if wanted != stored.connection_id {
        stored.connection_id = wanted;
        routes::rewrite(app, &db, id).await?;
        join(&db, &stored, now).await?;
        let details = json!({ "domain": stored.domain, "connection": wanted });
        actor.event(EventName::DomainChanged, now, details)?.in_workspace(id).insert(&db).await?;
    }
    let shown = view(app, &db, stored).await?;
    db.commit().await?;
    Ok(shown)
}

/// Removes a domain. Its users sign in by code again. Removing it again changes nothing.
pub async fn remove(
    app: &App,
    actor: &Actor<'_>,
    _: RecentSignIn,
    path: DomainPath<'_>,
) -> Result<(), DomainClaimError> {
    let now = app.clock.now();
    let domain = path.read_domain()?;
    let db = app.database.begin().await?;
    let id = access::lock(app, &db, actor, path.workspace_id, Right::Own).await?;
    routes::lock(app, &db, domain.as_str()).await?;
    let thing = deletion(app, &db, id, &domain).await?;
    if store::workspace_domains::delete(&db, id, domain.as_str()).await? {
        routes::remove(app, &db, id, domain.as_str()).await?;
        store::deletions::insert(&db, thing, now).await?;
        let details = json!({ "domain": domain.as_str() });
        actor.event(EventName::DomainRemoved, now, details)?.in_workspace(id).insert(&db).await?;
    } else if !store::deletions::touch(&db, thing).await? {
        return Err(DomainClaimError::NotFound);
    }
    Ok(db.commit().await?)
}

/// Looks for the record of a domain in DNS now.
pub async fn verify(app: &App, actor: &Actor<'_>, path: DomainPath<'_>) -> Result<WorkspaceDomain, DomainClaimError> {
    let now = app.clock.now();
    let domain = path.read_domain()?;
    let db = app.database.connect().await?;
    let id = access::enter(app, &db, actor, path.workspace_id, Right::Own).await?;
    find_in(&db, id, &domain).await?;
    let (user, workspace) = (actor.user_id.to_string(), id.to_string());
    for (policy, whom) in [("domain-checks-user", user), ("domain-checks-workspace", workspace)] {
        let limit = Limit { policy, whom: whom.as_bytes() };
        if let Some(limited) = limit.take_at_rate(app, &db, app.config.limits.domain_checks, now).await? {
            return Err(limited.into());
        }
    }
    drop(db);

    let texts = domain_checks::look_up(app, domain.as_str()).await.map_err(|_| DomainClaimError::DnsUnanswered)?;

    let db = app.database.begin().await?;
    access::lock(app, &db, actor, path.workspace_id, Right::Own).await?;
    let holder = routes::lock(app, &db, domain.as_str()).await?;
    let now = app.clock.now();
    let mut stored = find_in(&db, id, &domain).await?;
    let value = email_key::record_value(app, &db, &stored).await?;
    let is_found = has_record(&texts, &value);
    app.metrics.domain_checked(if is_found { "found" } else { "missing" });
    if is_found {
        if let Some(other) = holder.filter(|holder| *holder != id) {
            take_over(app, &db, other, &Answer { domain: &domain, texts: &texts, now }).await?;
        }
        mark_verified(app, &db, actor, &mut stored, now).await?;
    } else {
        stored.checked_at = Some(now);
        stored.last_error = Some(domain_checks::missing(&stored.domain));
        // By hand, a verified domain fails once at most: the weekly check decides whether it is lost.
        if stored.verified_at.is_some() {
            stored.failures = stored.failures.max(1);
        }
        store::workspace_domains::update_check(&db, &stored).await?;
    }
    let shown = view(app, &db, stored).await?;
    db.commit().await?;
    app.mail_waiting.notify_one();
    Ok(shown)
}

/// What DNS answered about a domain.
struct Answer<'a> {
    domain: &'a Domain,
    texts: &'a [String],
    now: Timestamp,
}

/// Takes a domain from the workspace that had verified it, unless its record is still in DNS.
async fn take_over(
    app: &App,
    db: &Connection,
    other: WorkspaceId,
    answer: &Answer<'_>,
) -> Result<(), DomainClaimError> {
    let domain = answer.domain.as_str();
    if let Some(lost) = store::workspace_domains::find(db, other, domain).await? {
        let record = email_key::record_value(app, db, &lost).await?;
        if has_record(answer.texts, &record) {
            return Err(DomainClaimError::VerifiedElsewhere { domain: domain.to_owned(), record });
        }
        domain_checks::lose(app, db, lost, Loss::TakenOver, answer.now).await?;
    }
    Ok(routes::remove(app, db, other, domain).await?)
}

async fn mark_verified(
    app: &App,
    db: &Connection,
    actor: &Actor<'_>,
    stored: &mut StoredDomain,
    now: Timestamp,
) -> Result<(), DomainClaimError> {
    let is_new = stored.verified_at.is_none();
    stored.verified_at = stored.verified_at.or(Some(now));
    stored.checked_at = Some(now);
    stored.next_check_at = Some(later(now, lifetimes::DOMAIN_CHECK));
    (stored.failures, stored.last_error) = (0, None);
    store::workspace_domains::update_check(db, stored).await?;
    let connections = store::connections::list(db, stored.workspace_id).await?;
    if !routes::write(app, db, stored, &connections).await? {
        return Err(database::Error::Unavailable("another workspace is verifying the domain".into()).into());
    }
    if is_new {
        join(db, stored, now).await?;
        let details = json!({ "domain": stored.domain });
        actor.event(EventName::DomainVerified, now, details)?.in_workspace(stored.workspace_id).insert(db).await?;
    }
    Ok(())
}

/// Applies what the owner chose about existing sessions and tokens to the users of a domain that has joined its connection.
async fn join(db: &Connection, domain: &StoredDomain, now: Timestamp) -> Result<(), database::Error> {
    match domain.connection_id.filter(|_| domain.verified_at.is_some()) {
        Some(connection_id) => store::connections::mark_joined(db, connection_id, now).await,
        None => Ok(()),
    }
}

async fn find_in(db: &Connection, id: WorkspaceId, domain: &Domain) -> Result<StoredDomain, DomainClaimError> {
    store::workspace_domains::find(db, id, domain.as_str()).await?.ok_or(DomainClaimError::NotFound)
}

/// The row that says that a domain was removed. Its id is derived from the domain.
async fn deletion(app: &App, db: &Connection, id: WorkspaceId, domain: &Domain) -> Result<ContentKey, database::Error> {
    let key = app.address_key.get_or_try_init(|| store::address_key::find(db)).await?;
    let derived = Uuid::from_bytes(address_shard::domain_id(key, id, domain.as_str()));
    Ok(ContentKey { space_id: id.uuid(), kind: DELETED_DOMAIN, id: derived })
}

/// A domain as the API shows it.
async fn view(app: &App, db: &Connection, stored: StoredDomain) -> Result<WorkspaceDomain, database::Error> {
    let value = email_key::record_value(app, db, &stored).await?;
    let status = match (stored.verified_at, stored.failures) {
        (Some(_), 0) => DomainStatus::Verified,
        (Some(_), _) => DomainStatus::Failing,
        (None, failures) if failures >= FAILURES_UNTIL_LOST => DomainStatus::Lost,
        (None, _) => DomainStatus::Pending,
    };
    Ok(WorkspaceDomain {
        record: DnsRecord { name: stored.domain.clone(), record_type: "TXT".to_owned(), value },
        domain: stored.domain,
        status,
        connection_id: stored.connection_id,
        created_at: stored.created_at,
        verified_at: stored.verified_at,
        checked_at: stored.checked_at,
        next_check_at: stored.next_check_at,
        last_error: stored.last_error,
    })
}
