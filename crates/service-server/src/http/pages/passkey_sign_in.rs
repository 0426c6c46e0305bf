//! The forms of the sign-in page that are about passkeys: using one, using a recovery code in its place, and having lost them all.

use axum::{Extension, extract::State, response::Response};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        sign_in::{
            passkey::{self, PasskeySignInError},
            passkey_recovery::{self, PasskeyRecoveryError},
            recovery_code::{self, RecoveryCodeError},
        },
    },
    http::{
        errors::ApiError,
        pages::{
            keep_account,
            request_browser::Form,
            see_other,
            sign_in::{AddressPage, ProblemForm, SignInProblem, find},
            with_cookie,
        },
        path::PathId,
    },
};

/// Signs in again by a recovery code, in place of a passkey.
pub async fn use_recovery_code(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let code = zeroize::Zeroizing::new(form.get("code").to_owned());
    let (mut browser, flow) = find(&app, Some(form.browser), &id).await?;
    let problem = match recovery_code::sign_in(&app, &meta, &mut browser, &flow, &code).await {
        Ok(()) => return Ok(with_cookie(see_other(&format!("/sign-in/{id}"))?, &browser)),
        Err(RecoveryCodeError::NotSignedIn) => SignInProblem::wrong(&t.sign_in.recovery_too_early),
        Err(RecoveryCodeError::NotAccepted) => SignInProblem::wrong(&t.sign_in.recovery_wrong),
        Err(RecoveryCodeError::Limited(limited)) => SignInProblem::limited(t, limited, &t.workspace.limited),
        Err(RecoveryCodeError::Database(error)) => return Err(error.into()),
        Err(RecoveryCodeError::Defect(error)) => return Err(error.into()),
    };
    AddressPage { app: &app, t, browser: &browser, flow: &flow }.show_again(problem.of(ProblemForm::RecoveryCode)).await
}

/// Begins to remove all passkeys, for a user who requires one and has lost them.
pub async fn begin_recovery(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let (browser, flow) = find(&app, Some(form.browser), &id).await?;
    let problem = match passkey_recovery::begin_waiting(&app, &meta, &flow).await {
        Ok(()) | Err(PasskeyRecoveryError::NothingToDo) => return see_other(&format!("/sign-in/{id}")),
        Err(PasskeyRecoveryError::NotSignedIn | PasskeyRecoveryError::SignInTooOld) => {
            SignInProblem::wrong(&t.sign_in.lost_too_late)
        }
        Err(PasskeyRecoveryError::Limited(limited)) => SignInProblem::limited(t, limited, &t.workspace.limited),
        Err(PasskeyRecoveryError::Database(error)) => return Err(error.into()),
        Err(PasskeyRecoveryError::Defect(error)) => return Err(error.into()),
    };
    AddressPage { app: &app, t, browser: &browser, flow: &flow }.show_again(problem.of(ProblemForm::LostPasskeys)).await
}

/// Signs in by a passkey.
pub async fn use_passkey(
    State(app): State<App>,
    Extension(meta): Extension<RequestMeta>,
    PathId(id): PathId,
    form: Form,
) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let response = form.get("response").to_owned();
    let (mut browser, flow) = find(&app, Some(form.browser), &id).await?;
    let problem = match passkey::sign_in(&app, &meta, &mut browser, &flow, &response).await {
        Ok(()) => return Ok(with_cookie(see_other(&format!("/sign-in/{id}"))?, &browser)),
        Err(PasskeySignInError::Passkey(_) | PasskeySignInError::Unknown) => {
            SignInProblem::wrong(&t.sign_in.passkey_refused)
        }
        Err(PasskeySignInError::CounterWentBack) => SignInProblem::wrong(&t.sign_in.passkey_copied),
        Err(PasskeySignInError::Closed(account)) => return keep_account::lead_to(&account),
        Err(PasskeySignInError::SsoRequired) => SignInProblem::wrong(&t.sign_in.passkey_sso),
        Err(PasskeySignInError::Limited(limited)) => SignInProblem::limited(t, limited, &t.workspace.limited),
        Err(PasskeySignInError::Database(error)) => return Err(error.into()),
        Err(PasskeySignInError::Defect(error)) => return Err(error.into()),
    };
    AddressPage { app: &app, t, browser: &browser, flow: &flow }.show_again(problem.of(ProblemForm::Passkey)).await
}
