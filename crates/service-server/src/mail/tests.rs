//! Every mail, in every language: its layout, its subject and where it leads.

use service_api::{
    ids::ConnectionId,
    token::{AddressLink, KeepAccount, OtpCode, SignInReport, Token, TokenKind as _},
};
use uuid::Uuid;

use crate::{
    brand::Brand,
    locales::{Language, Locales},
    mail::{
        Email, MadeThings, RevokedCredential, SignedInWith,
        templates::{Writer, Written},
    },
};

const URL: &str = "https://id.acme.test";
const CODE: &str = "1234 5678";
/// What others chose: it is in no subject.
const CHOSEN: &str = "Chosen & <b>strange</b>";

fn text() -> String {
    CHOSEN.to_owned()
}

/// One mail of each kind.
fn all(language: Language) -> Vec<Email> {
    let at = "2027-01-15T08:00:00Z".parse().unwrap();
    let (to, from) = (|| "ann@acme.test".to_owned(), || "192.0.2.7".to_owned());
    let code = || OtpCode::new("12345678".into());
    let connection_id = ConnectionId::from(Uuid::nil());
    let made = || MadeThings { revoked: vec![text()], kept: vec![text()] };
    let scopes = || "read write".to_owned();
    let mut mails = vec![
        Email::SignInCode {
            to: to(),
            code: code(),
            client_id: "service-cli".to_owned(),
            asked_at: at,
            asked_from: from(),
            language,
        },
        Email::LinkCode { to: to(), code: code(), asked_at: at, asked_from: from(), language },
        Email::SsoRequired { to: to(), company: text(), connection_id, asked_at: at, asked_from: from(), language },
        Email::SsoLinked { to: to(), company: text(), at, from: from(), was_linked: true, language },
        Email::BreakGlassUsed { to: to(), user: to(), company: text(), at, from: from() },
        Email::SessionReplayed { to: to(), client_id: text(), ended_at: at, presented_from: from(), made: made() },
        Email::McpTokensCreated {
            to: to(),
            scopes: scopes(),
            made_at: at,
            made_from: from(),
            expires_at: at,
            language,
        },
        Email::CliTokenCreated {
            to: to(),
            name: text(),
            hint: "…a1B2".to_owned(),
            scopes: scopes(),
            made_at: at,
            made_from: from(),
            expires_at: at,
            language,
        },
        Email::CliTokenEnds { to: to(), name: text(), hint: "…a1B2".to_owned(), expires_at: at },
        Email::CredentialRevoked {
            to: to(),
            credential: RevokedCredential::CliToken(text()),
            workspace: text(),
            owner: to(),
            revoked_at: at,
        },
        Email::Invitation { to: to(), workspace: text(), invited_by: to(), expires_at: at, language },
        Email::TokenLeaked { to: to(), what: text(), ended_at: at, made: MadeThings::default() },
        Email::TokenExposed { to: to(), what: text(), sent_at: at },
        Email::DomainFailing { to: to(), domain: "acme.test".to_owned(), record: text(), lost_at: at },
        Email::DomainLost { to: to(), domain: "acme.test".to_owned(), record: text(), taken_over: false },
    ];
    mails.extend(about_security(language));
    mails
}

/// One mail of each kind about passkeys, recovery codes, new sign-ins and securing.
fn about_security(language: Language) -> Vec<Email> {
    let at = "2027-01-15T08:00:00Z".parse().unwrap();
    let (to, from) = (|| "ann@acme.test".to_owned(), || "192.0.2.7".to_owned());
    let address_link = || Token::from_body(&[7; AddressLink::BODY]);
    let new_sign_in = |with| Email::NewSignIn {
        to: to(),
        with,
        at,
        from: from(),
        report: Token::from_body(&[7; SignInReport::BODY]),
    };
    vec![
        Email::PasskeyAdded { to: to(), name: text(), at, from: from(), language },
        Email::PasskeyRemoved { to: to(), name: text(), at, from: from(), language },
        Email::PasskeyRecoveryBegun { to: to(), at, from: from(), due_at: at },
        Email::PasskeyRecoveryStopped { to: to(), at, from: from() },
        Email::RecoveryCodesCreated { to: to(), at, from: from(), language },
        Email::RecoveryCodesRemoved { to: to(), at, from: from() },
        Email::PasskeyRequirementChanged { to: to(), required: true, at, from: from() },
        Email::PasskeyRequirementChanged { to: to(), required: false, at, from: from() },
        Email::RecoveryCodeUsed { to: to(), left: 9, at, from: from() },
        Email::PasskeyRecoveryEnded { to: to(), removed: vec![text()] },
        Email::PasskeyCopied { to: to(), name: text(), at, from: from() },
        new_sign_in(SignedInWith::Browser("Firefox/Linux".to_owned())),
        new_sign_in(SignedInWith::Client("service-cli".to_owned())),
        new_sign_in(SignedInWith::App(text())),
        Email::AccountSecured { to: to(), at, from: from(), passkeys: vec![text()] },
        Email::AccountClosed {
            to: to(),
            at,
            from: Some(from()),
            erased_on: at,
            workspaces: vec![text()],
            keep: Some(Token::from_body(&[7; KeepAccount::BODY])),
        },
        Email::AccountClosed { to: to(), at, from: None, erased_on: at, workspaces: Vec::new(), keep: None },
        Email::AccountLinkReplaced { to: to(), erased_on: at, keep: Token::from_body(&[7; KeepAccount::BODY]) },
        Email::AccountKept { to: to(), at },
        Email::AccountErased { to: to() },
        Email::AddressChangeRequested { to: to(), email: text(), at, from: from(), link: address_link() },
        Email::AddressConfirmation { to: to(), at, from: from(), link: address_link(), language },
        Email::AddressInUse { to: to(), at, from: from(), language },
        Email::AddressChangeDue { to: to(), email: text(), due_at: at, link: address_link() },
        Email::AddressChangeStopped { to: to(), email: text(), at },
        Email::AddressChanged { to: to(), email: text(), user_id: Uuid::nil().into() },
        Email::AddressNotChanged { to: to(), email: text() },
    ]
}

fn acme() -> Locales {
    let brand =
        Brand { name: "Acme & Co.".to_owned(), support_email: Some("help@acme.test".to_owned()), ..Brand::default() };
    Locales::with_brand(&brand).unwrap()
}

fn written(language: Language, code_in_subject: bool) -> Vec<Written> {
    let locales = acme();
    let writer = Writer { t: locales.of(language), base_url: URL, code_in_subject };
    all(language).iter().map(|email| email.write(&writer).unwrap()).collect()
}

/// The words of a text, or of HTML without its markup. A colon after the label of a link is the text's only.
fn words(text: &str) -> Vec<String> {
    let mut plain = String::new();
    for piece in text.split_once("<body").map_or(text, |(_, body)| body).split('<') {
        plain.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
        plain.push(' ');
    }
    let plain = plain.replace("&#38;", "&").replace("&#60;", "<").replace("&#62;", ">");
    let words = plain.split_whitespace().filter(|word| *word != "-");
    words.map(|word| word.trim_end_matches(':').to_owned()).collect()
}

#[test]
fn text_and_html_of_every_mail_say_the_same_under_the_services_name_fh_12() {
    for language in Language::ALL {
        for Written { subject, text, html } in written(language, true) {
            let escaped = text.replace('&', "&#38;").replace('<', "&#60;").replace('>', "&#62;");
            assert_eq!(words(&escaped), words(&html), "{subject}");
            assert!(text.starts_with("Acme & Co.\n\n") && text.contains("help@acme.test"), "{text}");
            assert!(text.lines().last().is_some_and(|line| line.ends_with("help@acme.test")), "{text}");
            assert!(html.contains(&format!("<html lang=\"{}\">", language.tag())), "{html}");
            assert!(!html.contains("<b>strange") && !html.contains("<img") && !html.contains("src="), "{html}");
            // Facts are one per line in both.
            assert!(text.lines().all(|line| line.matches(": ").count() < 3), "{text}");
        }
    }
}

#[test]
fn every_mail_but_one_with_a_code_has_a_button_to_a_page_of_the_service_fh_12() {
    // No page helps a user whose account an operator closed, or whose account is erased.
    let locales = acme();
    for language in Language::ALL {
        let mail = &locales.of(language).mail;
        let nothing_to_do = [mail.account_closed.support.to_string(), mail.account_erased.next.to_string()];
        for Written { subject, text, html } in written(language, true) {
            let has_code = text.lines().any(|line| line == CODE);
            let has_nothing_to_do = nothing_to_do.iter().any(|sentence| text.contains(sentence));
            assert_eq!(html.contains("<a "), !has_code && !has_nothing_to_do, "{subject}");
            let links: Vec<_> = html.split("<a href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            for link in links {
                let path = link.strip_prefix(URL).unwrap_or_else(|| panic!("{subject} leads to {link}"));
                let known = [
                    "/account",
                    "/workspaces",
                    "/sso/start?connection=",
                    "/sign-in-report?token=",
                    "/keep-account?token=",
                    "/address-change?token=",
                ];
                assert!(known.iter().any(|page| path.starts_with(page)), "{subject}: {link}");
                assert!(text.lines().any(|line| line == link), "{subject}: {text}");
            }
        }
    }
}

#[test]
fn a_subject_has_no_word_of_others_and_a_sign_in_code_only_if_the_operator_wants_it_fh_12() {
    for language in Language::ALL {
        for code_in_subject in [true, false] {
            let subjects: Vec<_> = written(language, code_in_subject).into_iter().map(|mail| mail.subject).collect();
            let with_code: Vec<_> = subjects.iter().filter(|subject| subject.contains(CODE)).collect();
            assert_eq!(with_code.len(), usize::from(code_in_subject), "{subjects:?}");
            assert!(subjects.iter().all(|subject| !subject.contains("Chosen")), "{subjects:?}");
            assert!(subjects[0].contains("Acme & Co."), "{subjects:?}");
        }
    }
    assert_eq!(written(Language::English, true)[0].subject, "Acme & Co. code: 1234 5678");
}

#[test]
fn a_mail_that_was_sealed_without_a_language_is_in_english() {
    let sealed = r#"{"Invitation":{"to":"ann@acme.test","workspace":"Acme","invited_by":"bob@acme.test",
                    "expires_at":"2027-01-15T08:00:00Z"}}"#;
    let email: Email = serde_json::from_str(sealed).unwrap();
    assert_eq!(email.language(), Language::English);
    let locales = Locales::load().unwrap();
    let writer = Writer { t: locales.of(Language::English), base_url: URL, code_in_subject: true };
    assert_eq!(email.write(&writer).unwrap().subject, "You have been invited to a workspace");
}

#[test]
fn a_mail_about_new_tokens_says_in_sentences_what_they_allow_fh_12() {
    for language in Language::ALL {
        let locales = acme();
        let t = locales.of(language);
        let about_tokens: Vec<_> =
            written(language, true).into_iter().filter(|mail| mail.text.contains(&*t.mail.permissions)).collect();
        let [mcp, cli] = &about_tokens[..] else { panic!("{} mails are about new tokens", about_tokens.len()) };
        for (mail, sentences) in
            [(mcp, ["read", "write"].map(|word| t.own_scope(word))), (cli, ["read", "write"].map(|word| t.scope(word)))]
        {
            for sentence in sentences {
                assert!(mail.text.lines().any(|line| line == format!("- {sentence}")), "{sentence}: {}", mail.text);
                assert!(mail.html.contains(&format!("{sentence}</li>")), "{sentence}: {}", mail.html);
            }
            assert!(!mail.text.contains("read write") && !mail.html.contains("read write"), "{}", mail.text);
        }
    }
}
