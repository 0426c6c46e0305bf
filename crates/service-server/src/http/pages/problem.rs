//! Pages that say what went wrong, and what to do.

use askama::Template;
use axum::{
    http::{StatusCode, header},
    response::Response,
};

use crate::{
    http::{
        errors::{ApiError, pages::PageProblem},
        pages::{STYLESHEET, page},
    },
    locales::Texts,
};

#[derive(Template)]
#[template(path = "pages/problem.html")]
struct ProblemPage<'a> {
    t: &'a Texts,
    title: &'a str,
    stylesheet: &'a str,
    heading: &'a str,
    text: &'a str,
    /// What is wrong with an app, for its developer.
    detail: Option<&'a str>,
    next: &'a str,
    request_id: &'a str,
    link: Option<Link<'a>>,
    other: Option<Link<'a>>,
}

pub(super) struct Link<'a> {
    pub(super) href: &'a str,
    pub(super) text: &'a str,
}

/// What a page says about a problem.
#[derive(Default)]
pub(super) struct Problem<'a> {
    pub(super) heading: &'a str,
    pub(super) text: &'a str,
    pub(super) detail: Option<&'a str>,
    pub(super) next: &'a str,
    pub(super) link: Option<Link<'a>>,
    /// Another way, for few users.
    pub(super) other: Option<Link<'a>>,
}

/// An error of any kind, on a page.
#[must_use]
pub(in crate::http) fn show(texts: &Texts, error: &ApiError, request_id: &str) -> Response {
    let wait = retry_after(error).map(|seconds| texts.duration(seconds));
    let limited_next = wait.map(|wait| texts.problem.limited_next.with("wait", wait).to_string());
    let problem = match error.problem() {
        Some(problem) => known(texts, problem),
        None => by_status(texts, error.status(), limited_next.as_deref()),
    };
    let shown = problem.show(texts, error.status(), request_id);
    let mut response = shown.unwrap_or_else(|error| error.render(request_id));
    for (name, value) in error.headers() {
        response.headers_mut().insert(name.clone(), value);
    }
    response
}

fn retry_after(error: &ApiError) -> Option<i64> {
    let (_, value) = error.headers().find(|(name, _)| **name == header::RETRY_AFTER)?;
    value.to_str().ok()?.parse().ok()
}

fn wrong_link<'a>(texts: &'a Texts, text: &'a str) -> Problem<'a> {
    let t = &texts.problem;
    Problem { heading: &t.link, text, next: &t.link_next, link: Some(to_account(texts)), ..Problem::default() }
}

pub(super) fn to_account(texts: &Texts) -> Link<'_> {
    Link { href: "/account", text: &texts.problem.account }
}

/// A link to the address of this page. The address of a form leads to its page.
fn again(texts: &Texts) -> Link<'_> {
    Link { href: "", text: &texts.problem.try_again }
}

/// What a page says about a problem that it knows.
fn known<'a>(texts: &'a Texts, problem: &'a PageProblem) -> Problem<'a> {
    let t = &texts.problem;
    let expired = |text| Problem {
        heading: &t.expired,
        text,
        next: &t.expired_next,
        link: Some(Link { href: "/sign-in", text: &t.sign_in_again }),
        ..Problem::default()
    };
    match problem {
        PageProblem::ForeignForm => Problem {
            heading: &t.form,
            text: &t.foreign_form,
            next: &t.form_next,
            link: Some(Link { href: "/account", text: &t.try_again }),
            ..Problem::default()
        },
        PageProblem::NotANavigation => Problem {
            heading: &t.navigation,
            text: &t.not_a_navigation,
            next: &t.navigation_next,
            link: Some(Link { href: "/sign-in", text: &texts.sign_in.heading }),
            ..Problem::default()
        },
        PageProblem::UnknownBrowser => expired(&t.unknown_browser),
        PageProblem::SignedOut => Problem {
            heading: &t.signed_out,
            text: &t.signed_out_text,
            link: Some(Link { href: "/sign-in", text: &t.sign_in_again }),
            ..Problem::default()
        },
        PageProblem::ForeignFlow => expired(&t.foreign_flow),
        PageProblem::ReportGone => report_gone(texts),
        PageProblem::AddressLinkGone => address_link_gone(texts),
        PageProblem::KeepGone => keep_gone(texts),
        PageProblem::UnknownApp => wrong_link(texts, &t.unknown_app),
        PageProblem::DisabledApp => wrong_link(texts, &t.disabled_app),
        PageProblem::RedirectUri => wrong_link(texts, &t.redirect_uri),
        PageProblem::Repeated => wrong_link(texts, &t.repeated),
        PageProblem::PromptNone => Problem {
            next: &t.prompt_none_next,
            link: Some(Link { href: "/sign-in", text: &texts.sign_in.heading }),
            ..wrong_link(texts, &t.prompt_none)
        },
        PageProblem::MetadataAddress => wrong_link(texts, &t.metadata_address),
        PageProblem::MetadataFailed => wrong_link(texts, &t.metadata_failed),
        PageProblem::MetadataInvalid(reason) => {
            Problem { detail: Some(reason), ..wrong_link(texts, &t.metadata_invalid) }
        }
        PageProblem::Finished => wrong_link(texts, &t.finished),
        PageProblem::Space => Problem { next: &t.space_next, ..wrong_link(texts, &texts.spaces.no_access) },
        PageProblem::EndDate => Problem { next: &t.end_date_next, ..wrong_link(texts, &t.end_date) },
        PageProblem::KeptOut => kept_out(texts),
        PageProblem::Refused => Problem {
            heading: &t.unavailable,
            text: &t.unavailable_text,
            next: &t.unavailable_next,
            link: Some(again(texts)),
            ..Problem::default()
        },
    }
}

/// What a page of a workspace says to a member who needs a passkey first.
fn kept_out(texts: &Texts) -> Problem<'_> {
    let t = &texts.workspace;
    Problem {
        heading: &t.kept_out_heading,
        text: &t.kept_out,
        next: &t.kept_out_next,
        link: Some(Link { href: "/account/security", text: &t.kept_out_link }),
        ..Problem::default()
    }
}

/// What a page says about a link in a mail that was used or has expired.
fn report_gone(texts: &Texts) -> Problem<'_> {
    Problem {
        heading: &texts.sign_in_report.gone,
        text: &texts.sign_in_report.gone_text,
        next: &texts.sign_in_report.gone_next,
        link: Some(Link { href: "/account/secure", text: &texts.account.secure.title }),
        ..Problem::default()
    }
}

/// What a page says about a link of a change that is over.
fn address_link_gone(texts: &Texts) -> Problem<'_> {
    Problem {
        heading: &texts.address_link.gone,
        text: &texts.address_link.gone_text,
        next: &texts.address_link.gone_next,
        link: Some(Link { href: "/account/address", text: &texts.account.address.title }),
        ..Problem::default()
    }
}

/// What a page says about a link that no longer keeps an account.
fn keep_gone(texts: &Texts) -> Problem<'_> {
    Problem {
        heading: &texts.keep_account.gone,
        text: &texts.keep_account.gone_text,
        next: &texts.keep_account.gone_next,
        link: Some(Link { href: "/sign-in", text: &texts.sign_in.heading }),
        ..Problem::default()
    }
}

/// What a page says about an error of which it knows only the status.
fn by_status<'a>(texts: &'a Texts, status: StatusCode, limited_next: Option<&'a str>) -> Problem<'a> {
    let t = &texts.problem;
    let (heading, text, next) = match status.as_u16() {
        403 => (&t.forbidden, &t.forbidden_text, &t.forbidden_next),
        404 => (&t.not_found, &t.not_found_text, &t.not_found_next),
        429 => (&t.limited, &t.limited_text, &t.unavailable_next),
        // The database did not confirm in time what was asked of it.
        503 => (&t.unavailable, &t.unknown_outcome, &t.unknown_outcome_next),
        500.. => (&t.failed, &t.failed_text, &t.failed_next),
        _ => return wrong_link(texts, &t.unreadable),
    };
    let link = Some(if status == StatusCode::TOO_MANY_REQUESTS { again(texts) } else { to_account(texts) });
    let next = limited_next.filter(|_| status == StatusCode::TOO_MANY_REQUESTS).unwrap_or(next);
    Problem { heading, text, next, link, ..Problem::default() }
}

impl Problem<'_> {
    pub(super) fn show(self, texts: &Texts, status: StatusCode, request_id: &str) -> Result<Response, ApiError> {
        let Self { heading, text, detail, next, link, other } = self;
        let template = ProblemPage {
            t: texts,
            title: heading,
            stylesheet: STYLESHEET,
            heading,
            text,
            detail,
            next,
            request_id,
            link,
            other,
        };
        page(texts, status, &template, None)
    }
}
