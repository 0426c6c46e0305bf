//! `/v1/account/address-change`

use axum::{Json, extract::State};
use service_api::address_change::{AddressChange, ChangeAddress};

use crate::{
    app::App,
    flows::account::address_change,
    http::{
        body::Body,
        caller::{Read, RecentUserSession, Sessions, UserSession, Write},
        errors::{ApiError, api},
        query::Query,
    },
};

pub async fn request(
    State(app): State<App>,
    caller: RecentUserSession<Write<Sessions>>,
    Body(wanted): Body<ChangeAddress>,
) -> Result<Json<AddressChange>, ApiError> {
    let requested = address_change::request(&app, &caller.actor(), caller.sign_in, &wanted.email).await;
    Ok(Json(requested.map_err(|failure| api::address_change(failure, &app.config.base_url))?))
}

pub async fn read(
    State(app): State<App>,
    caller: UserSession<Read<Sessions>>,
    _: Query,
) -> Result<Json<AddressChange>, ApiError> {
    let found = address_change::read(&app, &caller.actor()).await;
    Ok(Json(found.map_err(|failure| api::address_change(failure, &app.config.base_url))?))
}

pub async fn stop(State(app): State<App>, caller: UserSession<Write<Sessions>>, _: Query) -> Result<(), ApiError> {
    let stopped = address_change::stop(&app, &caller.actor()).await;
    stopped.map_err(|failure| api::address_change(failure, &app.config.base_url))
}
