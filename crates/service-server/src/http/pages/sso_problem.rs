//! What a page says about a sign-in at a company's identity provider that failed, and what to do next.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use service_rules::sso::{IdentityError, NotFresh};

use crate::{
    app::App,
    flows::{
        RequestMeta,
        sso::{RefusedSignIn, RefusedSignInError, SsoError},
    },
    http::{
        errors::ApiError,
        pages::problem::{Link, Problem},
    },
    locales::Texts,
};

/// How long a caller should wait before it tries a provider again, in seconds.
const RETRY_AFTER_SECONDS: &str = "10";

/// Shows why a user was not signed in. An error of the service itself is passed on.
pub(super) fn show(app: &App, meta: &RequestMeta, error: SsoError) -> Result<Response, ApiError> {
    let t = app.locales.of(meta.language);
    let texts = &t.sso;
    let sign_in = Some(Link { href: "/sign-in", text: &t.problem.sign_in_again });
    let problem = match error {
        SsoError::NotAvailable => Problem {
            heading: &texts.not_available,
            text: &texts.not_available_text,
            next: &texts.not_available_next,
            link: sign_in,
            ..Problem::default()
        },
        SsoError::ForeignResponse => Problem {
            heading: &texts.foreign,
            text: &texts.foreign_text,
            next: &texts.foreign_next,
            link: sign_in,
            ..Problem::default()
        },
        SsoError::Refused(refused) => return Refusal::of(t, &refused).show(t, meta, &refused),
        SsoError::Authorize(error) => return Err(error.into()),
        SsoError::RateLimit(error) => return Err(error.into()),
        SsoError::Database(error) => return Err(error.into()),
        SsoError::Defect(error) => return Err(error.into()),
    };
    problem.show(t, StatusCode::BAD_REQUEST, &meta.request_id)
}

/// A refused sign-in in words.
struct Refusal {
    status: StatusCode,
    heading: String,
    text: String,
    next: String,
}

impl Refusal {
    fn of(t: &Texts, refused: &RefusedSignIn) -> Self {
        let (texts, company) = (&t.sso, &refused.company);
        let with = |sentence: &crate::locales::Sentence| sentence.with("company", company).to_string();
        let (status, heading, text, next) = match &refused.error {
            RefusedSignInError::Issuer(error) if error.is_outage() => (
                StatusCode::SERVICE_UNAVAILABLE,
                with(&texts.unavailable),
                with(&texts.unavailable_text),
                texts.unavailable_next.to_string(),
            ),
            RefusedSignInError::Provider(_) => (
                StatusCode::BAD_REQUEST,
                with(&texts.refused),
                with(&texts.refused_text),
                texts.refused_next.to_string(),
            ),
            RefusedSignInError::Issuer(_)
            | RefusedSignInError::OtherIssuer
            | RefusedSignInError::NoCode
            | RefusedSignInError::IdToken(_) => (
                StatusCode::BAD_REQUEST,
                texts.invalid.to_string(),
                with(&texts.invalid_text),
                texts.invalid_next.to_string(),
            ),
            RefusedSignInError::NotFresh(NotFresh) => (
                StatusCode::FORBIDDEN,
                with(&texts.not_fresh),
                with(&texts.not_fresh_text),
                with(&texts.not_fresh_next),
            ),
            RefusedSignInError::Identity(error) => {
                let (text, next) = match error {
                    IdentityError::NoAddress => (with(&texts.no_address), &texts.identity_next),
                    IdentityError::UnverifiedAddress => (with(&texts.unverified_address), &texts.identity_next),
                    IdentityError::ForeignDomain => (with(&texts.foreign_domain), &texts.identity_next),
                    IdentityError::OtherTenant => (with(&texts.other_tenant), &texts.identity_next),
                    IdentityError::AccountDisabled => (texts.disabled.to_string(), &texts.disabled_next),
                    IdentityError::PasskeyRequired => (texts.passkey.to_string(), &texts.passkey_next),
                };
                (StatusCode::FORBIDDEN, t.problem.forbidden.to_string(), text, next.to_string())
            }
        };
        Self { status, heading, text, next }
    }

    fn show(&self, t: &Texts, meta: &RequestMeta, refused: &RefusedSignIn) -> Result<Response, ApiError> {
        let detail = detail(refused);
        let again = format!("/sign-in/{}", refused.flow_id);
        let emergency = format!("{again}/emergency");
        let problem = Problem {
            heading: &self.heading,
            text: &self.text,
            next: &self.next,
            detail: detail.as_deref(),
            link: Some(Link { href: &again, text: &t.sso.again }),
            // Only where nothing else signs in, and where it is not the user who is refused.
            other: (refused.required && refused.error.is_of_provider())
                .then_some(Link { href: &emergency, text: &t.sso.emergency_link }),
        };
        let mut response = problem.show(t, self.status, &meta.request_id)?;
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        Ok(response)
    }
}

/// What is wrong, for the owner who sets the connection up; for other users only the code that their provider sent.
fn detail(refused: &RefusedSignIn) -> Option<String> {
    match &refused.error {
        error if refused.is_try => Some(error.to_string()),
        RefusedSignInError::Provider(code) => Some(code.clone()),
        _ => None,
    }
}
