//! `service workspace domain`: manages the domains of the current workspace.

use serde_json::json;
use service_api::{
    connections::{ClaimDomain, DomainStatus, WorkspaceDomain},
    ids::ConnectionId,
};
use service_client::Client;

use super::place::Place;
use crate::{
    completion_cache::{ListedKind, remember},
    context::Context,
    failure::{Failure, FailureCode},
    sso_arguments::DomainCommand,
    table::{Cell, Table, strip_control},
};

pub(super) async fn run(context: &Context, command: DomainCommand) -> Result<(), Failure> {
    let place = Place::open(context, "domains").await?;
    match command {
        DomainCommand::List => list(&place).await,
        DomainCommand::Add { domain, connection } => add(&place, domain, connection.as_deref()).await,
        DomainCommand::Verify { domain } => verify(&place, &domain).await,
        DomainCommand::Update { domain, connection, .. } => update(&place, &domain, connection.as_deref()).await,
        DomainCommand::Remove { domain } => remove(&place, &domain).await,
    }
}

async fn list(place: &Place<'_>) -> Result<(), Failure> {
    let call = async |client: &Client, token: &_| client.list_domains(token, place.id).await;
    let domains = place.call(call).await?.data;
    let entries = domains.iter().map(|domain| (domain.domain.clone(), status(domain.status)));
    remember(place.context, &place.connection, ListedKind::Domain, entries);
    let mut table = Table::new(&["DOMAIN", "STATUS", "CONNECTION", "NEXT CHECK"]);
    for domain in &domains {
        table.add_row([
            Cell::text(&domain.domain),
            Cell::text(status(domain.status)),
            Cell::whole(domain.connection_id.map(|id| id.to_string()).unwrap_or_default()),
            Cell::time(domain.next_check_at),
        ]);
    }
    if domains.is_empty() {
        place.context.output.info("No domains.");
    }
    let lines = if domains.is_empty() { String::new() } else { table.render(&place.context.output) };
    place.print("domains", &domains, &lines)
}

async fn add(place: &Place<'_>, domain: String, connection: Option<&str>) -> Result<(), Failure> {
    let claim = ClaimDomain { domain, connection_id: connection.map(parse_connection).transpose()? };
    let call = async |client: &Client, token: &_| client.claim_domain(token, place.id, &claim).await;
    let added = place.call(call).await?;
    place.context.output.success(&format!("Added {}.", strip_control(&added.domain)));
    explain_record(place, &added);
    place.print("domain", &added, &added.record.value)
}

async fn verify(place: &Place<'_>, domain: &str) -> Result<(), Failure> {
    let call = async |client: &Client, token: &_| client.verify_domain(token, place.id, domain).await;
    let checked = place.call(call).await.map_err(named(domain))?;
    if checked.status == DomainStatus::Verified {
        place.context.output.success(&format!("{} is verified.", strip_control(&checked.domain)));
        return place.print("domain", &checked, "");
    }
    let error = checked.last_error.as_deref().unwrap_or("The DNS record was not found.");
    explain_record(place, &checked);
    Err(Failure::new(FailureCode::NotFound, strip_control(error))
        .hint("Add the record, wait until DNS shows it, and retry"))
}

async fn update(place: &Place<'_>, domain: &str, connection: Option<&str>) -> Result<(), Failure> {
    let connection_id = connection.map(parse_connection).transpose()?;
    let call = async |client: &Client, token: &_| client.update_domain(token, place.id, domain, connection_id).await;
    let updated = place.call(call).await.map_err(named(domain))?;
    let how = match updated.connection_id {
        Some(id) => format!("through {id}"),
        None => "by email code".to_owned(),
    };
    place.context.output.success(&format!("Users of {} sign in {how}.", strip_control(&updated.domain)));
    place.print("domain", &updated, "")
}

async fn remove(place: &Place<'_>, domain: &str) -> Result<(), Failure> {
    let question = format!("Remove {}? Its users sign in by email code again.", strip_control(domain));
    if !place.confirm("remove a domain", &question).await? {
        return Err(Failure::new(FailureCode::ConfirmationRequired, "Nothing was changed."));
    }
    let call = async |client: &Client, token: &_| client.remove_domain(token, place.id, domain).await;
    place.call(call).await.map_err(named(domain))?;
    place.context.output.success(&format!("Removed {}.", strip_control(domain)));
    place.print("removed", &json!({ "domain": domain }), "")
}

fn explain_record(place: &Place<'_>, domain: &WorkspaceDomain) {
    let record = &domain.record;
    place.context.output.info("  Add this record at your DNS provider:");
    place.context.output.info(&format!(
        "    {} {} \"{}\"",
        strip_control(&record.name),
        record.record_type,
        record.value
    ));
    let text = format!("  Then run: service workspace domain verify {}", strip_control(&domain.domain));
    place.context.output.info(&text);
}

fn parse_connection(id: &str) -> Result<ConnectionId, Failure> {
    id.parse().map_err(|_| {
        let text = format!("Connection {} not found.", strip_control(id));
        Failure::new(FailureCode::NotFound, text).hint("service workspace connection list")
    })
}

/// Names the domain in a failure that says that something was not found.
fn named(domain: &str) -> impl Fn(Failure) -> Failure {
    move |failure| {
        if failure.code != FailureCode::NotFound {
            return failure;
        }
        let text =
            format!("{} isn't a domain of this workspace, or the connection doesn't exist.", strip_control(domain));
        Failure::new(FailureCode::NotFound, text).hint("service workspace domain list")
    }
}

const fn status(status: DomainStatus) -> &'static str {
    match status {
        DomainStatus::Pending => "pending",
        DomainStatus::Verified => "verified",
        DomainStatus::Failing => "failing",
        DomainStatus::Lost => "lost",
    }
}
