//! Which space a request runs in, and who gets into which.

use anyhow::Result;
use service_api::{
    endpoints::{Access, Endpoint},
    ids::{Id as _, UserId, WorkspaceId},
    scope::{Action, Scopes},
    workspaces::Role,
};
use service_rules::space::Space;
use service_testkit::{response::TestResponse, server::with_server};

use crate::support::access::{call_at, claims, signed};
use crate::support::spaces::{Office, all_refuse, call, in_spaces, seen};

/// The verdict of the contract's sections 3 and 4; `None`: the request runs.
fn oracle(
    office: &Office,
    caller: Option<UserId>,
    place: Space,
    scopes: Scopes,
    endpoint: &Endpoint,
) -> Option<(u16, &'static str)> {
    let Some(user_id) = caller else { return Some((401, "missing_token")) };
    let (needed, owners_only) = match endpoint.access {
        Access::Bearer(needed) => (needed, false),
        Access::Owner(needed) => (needed, true),
        _ => return None,
    };
    if !scopes.allow(needed) {
        return Some((403, "insufficient_scope"));
    }
    let Space::Workspace(id) = place else { return None };
    match (office.role(user_id, id), needed.action) {
        (None, _) => Some((404, "not_found")),
        (Some(Role::Viewer | Role::Member), _) if owners_only => Some((403, "forbidden")),
        (Some(Role::Viewer), Action::Write) => Some((403, "forbidden")),
        _ => None,
    }
}

#[test]
fn people_spaces_scopes_and_endpoints_agree_with_the_contract_ws_01() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        let workspaces = [office.first, office.second, office.third, office.unknown];
        let mut places = vec![(Space::Personal, String::new()), (Space::Personal, "?workspaceId=personal".into())];
        places.extend(workspaces.map(|id| (Space::Workspace(id), format!("?workspaceId={id}"))));
        let mut cells = 0;
        for caller in [Some(office.ann.user_id), Some(office.bob.user_id), None] {
            for scopes in ["read", "write", "read write", ""] {
                let token = caller.map(|id| signed(server, &claims(server, id, scopes)?)).transpose()?;
                for (place, query) in &places {
                    for (endpoint, _) in in_spaces() {
                        let response = call_at(server, endpoint, query, token.as_deref()).await?;
                        let cell = format!("{caller:?} with {scopes:?} at {}{query}", endpoint.path);
                        match oracle(&office, caller, *place, Scopes::parse(scopes), endpoint) {
                            Some(refusal) => {
                                assert_eq!((response.status.as_u16(), response.error()), refusal, "{cell}");
                            }
                            None => assert!(!matches!(response.status.as_u16(), 401 | 403 | 405 | 500..), "{cell}"),
                        }
                        cells += 1;
                    }
                }
            }
        }
        println!("{cells} cells of people, spaces, scopes and endpoints checked");
        Ok(())
    })
}

#[test]
fn a_foreign_workspace_is_like_one_that_does_not_exist_ws_02() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        let ann = &office.ann.access_token;
        let shown = |response: &TestResponse| {
            let mut headers = response.headers.clone();
            headers.remove("x-request-id");
            headers.remove("date");
            headers.remove("ratelimit");
            (response.status, format!("{headers:?}"), response.text.replace(response.field("request_id"), ""))
        };
        for (endpoint, _) in in_spaces() {
            let foreign = call(server, endpoint, &format!("?workspaceId={}", office.second), ann).await?;
            let unknown = call(server, endpoint, &format!("?workspaceId={}", office.unknown), ann).await?;
            // A personal space has an id too, but it is no workspace id: neither Ann's own nor Bob's works.
            let [own, bobs] = [office.ann.user_id, office.bob.user_id].map(|id| WorkspaceId::from(id.uuid()));
            let own = call(server, endpoint, &format!("?workspaceId={own}"), ann).await?;
            let bobs = call(server, endpoint, &format!("?workspaceId={bobs}"), ann).await?;
            assert_eq!((foreign.status.as_u16(), foreign.error()), (404, "not_found"), "{}", endpoint.path);
            for other in [&unknown, &own, &bobs] {
                assert_eq!(shown(&foreign), shown(other), "{}", endpoint.path);
            }
            assert!(foreign.field("request_id") != unknown.field("request_id"));
        }
        Ok(())
    })
}

#[test]
fn who_was_removed_is_out_and_not_in_personal_space_instead_ws_03() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        let token = office.anns_token_for(server, office.first)?;
        assert_eq!(seen(server, "", &token).await?.1, ["Of the first"]);
        let membership =
            format!("user_id = '{}' and workspace_id = '{}'", office.ann.user_id.uuid(), office.first.uuid());
        // Nothing is in the feed. So the membership counts when the cached role has expired.
        server.sql(&format!("update memberships set ended_at = created_at where {membership}")).await?;
        server.advance(61);
        all_refuse(server, "", &token, 404, "not_found").await?;
        all_refuse(server, &format!("?workspaceId={}", office.first), &token, 404, "not_found").await?;
        all_refuse(server, &format!("?workspaceId={}", office.first), &office.ann.access_token, 404, "not_found")
            .await?;
        // Asked for outright, personal space and the other workspace are still there.
        assert_eq!(seen(server, "?workspaceId=personal", &token).await?.1, ["Ann's own"]);
        assert_eq!(seen(server, &format!("?workspaceId={}", office.third), &token).await?.1, ["Of the third"]);
        server.sql(&format!("delete from memberships where {membership}")).await?;
        all_refuse(server, "", &token, 404, "not_found").await
    })
}

#[test]
fn a_token_for_a_space_its_user_was_never_in_opens_nothing_ws_03() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        for workspace in
            [office.second, office.unknown, office.ann.user_id.uuid().into(), office.bob.user_id.uuid().into()]
        {
            let token = office.anns_token_for(server, workspace)?;
            all_refuse(server, "", &token, 404, "not_found").await?;
        }
        Ok(())
    })
}

#[test]
fn a_space_is_named_once_and_in_one_way_ws_04() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        let token = office.anns_token_for(server, office.third)?;
        let id = office.first.to_string();
        let (upper, bare) = (id.to_uppercase(), id.trim_start_matches("wsp_"));
        for query in [
            format!("?workspaceId={id}&workspaceId={id}"),
            format!("?workspaceId={id}&workspaceId={}", office.third),
            format!("?workspaceId={id}&workspace%49d={id}"),
            format!("?workspaceId=personal&workspaceId={id}"),
            format!("?workspaceId={id}&workspaceId="),
            format!("?workspaceid={id}"),
            format!("?WorkspaceId={id}"),
            format!("?workspace_id={id}"),
            format!("?workspaceId[]={id}"),
            format!("?workspaceId%5B%5D={id}"),
            format!("?workspaceId[0]={id}"),
            format!("?workspaceId.x={id}"),
            format!("?workspaceId%20={id}"),
            format!("?workspaceId={id}%00"),
            format!("?workspaceId%00={id}"),
            format!("?workspaceId={id}%20"),
            format!("?workspaceId=+{id}"),
            format!("?workspaceId={id},{id}"),
            format!("?workspaceId={id};x=1"),
            format!("?workspaceId=%2577{}", &id[1..]),
            format!("?workspaceId={id}%"),
            format!("?workspaceId={id}%ff"),
            format!("?workspaceId={upper}"),
            format!("?workspaceId={bare}"),
            format!("?workspaceId={}", office.first.uuid()),
            format!("?workspaceId={}", office.ann.user_id),
            format!("?workspaceId=wsp_{}", "z".repeat(26)),
            "?workspaceId=Personal".into(),
            "?workspaceId=personal%20".into(),
            "?workspaceId=null".into(),
            "?workspaceId=*".into(),
            "?workspaceId='%20or%20'1'%3D'1".into(),
        ] {
            all_refuse(server, &query, &token, 400, "invalid_request").await?;
        }
        // One name has one decoding, and that is the one which counts.
        assert_eq!(seen(server, &format!("?workspace%49d=%77{}", &id[1..]), &token).await?.1, ["Of the first"]);
        Ok(())
    })
}

#[test]
fn an_empty_space_is_a_mistake_and_not_personal_space_ws_05() -> Result<()> {
    with_server(async |server| {
        let office = Office::open(server).await?;
        for token in [&office.ann.access_token, &office.anns_token_for(server, office.first)?] {
            for query in ["?workspaceId=", "?workspaceId", "?workspaceId=%20", "?workspaceId=+"] {
                all_refuse(server, query, token, 400, "invalid_request").await?;
            }
        }
        Ok(())
    })
}
