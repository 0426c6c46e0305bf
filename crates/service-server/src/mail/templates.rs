//! What each mail says.

use askama::Template as _;
use service_api::{
    endpoints,
    token::{AddressLink, KeepAccount, SignInReport, Token},
};
use service_rules::{Timestamp, lifetimes, user_agent::UserAgent};
use zeroize::Zeroizing;

use crate::{
    locales::{MailAddressChange, Sentence, Text, Texts},
    mail::{
        Email, MadeThings, RevokedCredential, SignedInWith,
        blocks::{Block, HtmlMail, TextMail},
    },
};

/// A mail in words.
pub(super) struct Written {
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) html: String,
}

impl Email {
    pub(super) fn write(&self, writer: &Writer<'_>) -> anyhow::Result<Written> {
        let (t, footer) = (writer.t, writer.footer());
        let (subject, blocks) = self.blocks(writer);
        let subject = self.subject_with_code(writer).unwrap_or_else(|| subject.to_string());
        let text = TextMail { t, blocks: &blocks, footer: &footer }.render()?;
        let html = HtmlMail { t, subject: &subject, blocks: &blocks, footer: &footer }.render()?;
        Ok(Written { subject, text, html })
    }

    /// The subject of a mail with a sign-in code, if the operator wants the code there. A code that links an account is never
    /// there: its user should read what the code does.
    fn subject_with_code(&self, writer: &Writer<'_>) -> Option<String> {
        let Self::SignInCode { code, .. } = self else { return None };
        let subject = &writer.t.mail.sign_in_code.subject_with_code;
        writer.code_in_subject.then(|| subject.with("code", &*halves(code.expose())).to_string())
    }

    /// The subject, and what follows.
    #[expect(clippy::too_many_lines, reason = "an arm for each mail")]
    fn blocks<'a>(&self, writer: &Writer<'a>) -> (&'a Text, Vec<Block<'a>>) {
        let (t, mail) = (writer.t, &writer.t.mail);
        match self {
            Self::SignInCode { code, client_id, asked_at, asked_from, .. } => {
                let requested = writer.requested(client_id, *asked_at, asked_from);
                (&mail.sign_in_code.subject, writer.code(&mail.sign_in_code.code, code.expose(), &requested))
            }
            Self::LinkCode { code, asked_at, asked_from, .. } => {
                let requested = writer.requested("", *asked_at, asked_from);
                let mut blocks = writer.code(&mail.link_code.code, code.expose(), &requested);
                blocks.insert(0, plain(&mail.link_code.happened));
                (&mail.link_code.subject, blocks)
            }
            Self::SsoRequired { company, connection_id, asked_at, asked_from, .. } => {
                let texts = &mail.sso_required;
                let requested = texts.requested.with("date", t.moment(*asked_at)).with("address", asked_from);
                let sign_in = writer.link(&texts.sign_in, &format!("/sso/start?connection={connection_id}"));
                let happened = filled(&texts.happened.with("company", company));
                (&texts.subject, vec![happened, sign_in, filled(&requested), plain(&texts.ignore)])
            }
            Self::SsoLinked { company, at, from, was_linked, .. } => {
                let texts = &mail.sso_linked;
                let mut blocks = vec![filled(&writer.at_url(&texts.happened).with("company", company))];
                blocks.extend(was_linked.then(|| plain(&texts.replaced)));
                let facts = vec![(&mail.time, t.moment(*at)), (&mail.address, from.clone())];
                let review = writer.link(&mail.review, "/account");
                blocks.extend([Block::Facts(facts), plain(&mail.not_you), review]);
                (&texts.subject, blocks)
            }
            Self::BreakGlassUsed { user, company, at, from, .. } => {
                let texts = &mail.break_glass;
                let happened = filled(&writer.at_url(&texts.happened).with("company", company));
                let facts =
                    vec![(&texts.user, user.clone()), (&mail.time, t.moment(*at)), (&mail.address, from.clone())];
                let review = writer.link(&mail.review, "/workspaces");
                (&texts.subject, vec![happened, Block::Facts(facts), plain(&texts.next), review])
            }
            Self::SessionReplayed { client_id, ended_at, presented_from, made, .. } => {
                let texts = &mail.session_replayed;
                let facts = vec![
                    (&texts.session, t.client_or_app(client_id).to_string()),
                    (&mail.time, t.moment(*ended_at)),
                    (&mail.address, presented_from.clone()),
                ];
                let review = writer.link(&mail.review, "/account");
                let said =
                    [plain(&texts.happened), Block::Facts(facts), plain(&texts.next), review, plain(&texts.others)];
                (&texts.subject, writer.with_made(said.into(), made))
            }
            Self::McpTokensCreated { scopes, made_at, made_from, expires_at, .. } => {
                // MCP tokens belong to the service's own MCP client.
                let may = scopes.split(' ').map(|word| t.own_scope(word).to_owned()).collect();
                let created = Created { may, made_at: *made_at, made_from, expires_at: *expires_at };
                let texts = &mail.mcp_tokens_created;
                (&texts.subject, writer.created(&texts.happened, Vec::new(), created))
            }
            Self::CliTokenCreated { name, hint, scopes, made_at, made_from, expires_at, .. } => {
                let may = scopes.split(' ').map(|word| t.scope(word).to_owned()).collect();
                let created = Created { may, made_at: *made_at, made_from, expires_at: *expires_at };
                let texts = &mail.cli_token_created;
                let named = vec![(&mail.name, name.clone()), (&texts.token, hint.clone())];
                (&texts.subject, writer.created(&texts.happened, named, created))
            }
            Self::CliTokenEnds { name, hint, expires_at, .. } => {
                let texts = &mail.cli_token_expires;
                let happened = writer.at_url(&texts.happened).with("name", name).with("hint", hint);
                let happened = filled(&happened.with("date", t.moment(*expires_at)));
                let renew = writer.link(&texts.renew, "/account/tokens");
                (&texts.subject, vec![happened, renew, plain(&texts.ignore)])
            }
            Self::PasskeyAdded { name, at, from, .. } => {
                let texts = &mail.passkey_added;
                (&texts.subject, writer.passkey(&texts.happened, name, *at, from))
            }
            Self::PasskeyRemoved { name, at, from, .. } => {
                let texts = &mail.passkey_removed;
                (&texts.subject, writer.passkey(&texts.happened, name, *at, from))
            }
            Self::PasskeyCopied { name, at, from, .. } => {
                let texts = &mail.passkey_copied;
                let mut blocks = writer.passkey(&texts.happened, name, *at, from);
                blocks.insert(2, plain(&texts.next));
                (&texts.subject, blocks)
            }
            Self::PasskeyRecoveryBegun { at, from, due_at, .. } => {
                let texts = &mail.passkey_recovery_begun;
                let happened = writer.at_url(&texts.happened).with("date", t.moment(*due_at));
                let facts = vec![(&mail.time, t.moment(*at)), (&mail.address, from.clone())];
                let stop = writer.link(&texts.stop, "/account/security");
                (&texts.subject, vec![filled(&happened), Block::Facts(facts), plain(&texts.next), stop])
            }
            Self::PasskeyRecoveryStopped { at, from, .. } => {
                let texts = &mail.passkey_recovery_stopped;
                (&texts.subject, writer.security_change(&texts.happened, *at, from))
            }
            Self::PasskeyRecoveryEnded { removed, .. } => {
                let texts = &mail.passkey_recovery_ended;
                let happened = filled(&writer.at_url(&texts.happened));
                let review = writer.link(&mail.review, "/account/security");
                (&texts.subject, vec![happened, Block::List(removed.clone()), plain(&texts.next), review])
            }
            Self::RecoveryCodesCreated { at, from, .. } => {
                let texts = &mail.recovery_codes_created;
                (&texts.subject, writer.security_change(&texts.happened, *at, from))
            }
            Self::RecoveryCodesRemoved { at, from, .. } => {
                let texts = &mail.recovery_codes_removed;
                (&texts.subject, writer.security_change(&texts.happened, *at, from))
            }
            Self::PasskeyRequirementChanged { required, at, from, .. } => {
                let texts = if *required { &mail.passkey_required } else { &mail.passkey_not_required };
                (&texts.subject, writer.security_change(&texts.happened, *at, from))
            }
            Self::RecoveryCodeUsed { left, at, from, .. } => {
                let texts = &mail.recovery_code_used;
                let mut blocks = writer.security_change(&texts.happened, *at, from);
                blocks.insert(2, filled(&texts.left.count((*left).into())));
                (&texts.subject, blocks)
            }
            Self::NewSignIn { with, at, from, report, .. } => writer.new_sign_in(with, *at, from, report),
            Self::AccountSecured { at, from, passkeys, .. } => {
                let texts = &mail.account_secured;
                let facts = vec![(&mail.time, t.moment(*at)), (&mail.address, from.clone())];
                let mut blocks = vec![filled(&writer.at_url(&texts.happened)), Block::Facts(facts)];
                if !passkeys.is_empty() {
                    blocks.extend([plain(&texts.passkeys), Block::List(passkeys.clone())]);
                }
                blocks.extend([plain(&mail.not_you), writer.link(&mail.review, "/account")]);
                (&texts.subject, blocks)
            }
            Self::AccountClosed { at, from, erased_on, workspaces, keep, .. } => {
                let facts = from.as_ref().map(|from| vec![(&mail.time, t.moment(*at)), (&mail.address, from.clone())]);
                (&mail.account_closed.subject, writer.account_closed(*erased_on, facts, workspaces, keep.as_ref()))
            }
            Self::AccountLinkReplaced { erased_on, keep, .. } => {
                let texts = &mail.account_link_replaced;
                let happened = filled(&writer.at_url(&texts.happened).with("date", t.moment(*erased_on)));
                (&texts.subject, vec![happened, plain(&texts.next), writer.keep_account(keep)])
            }
            Self::AccountKept { .. } => {
                let texts = &mail.account_kept;
                let sign_in = writer.link(&mail.review, "/account");
                (&texts.subject, vec![filled(&writer.at_url(&texts.happened)), plain(&texts.next), sign_in])
            }
            Self::AccountErased { .. } => {
                let texts = &mail.account_erased;
                (&texts.subject, vec![filled(&writer.at_url(&texts.happened)), plain(&texts.next)])
            }
            Self::AddressChangeRequested { email, at, from, link, .. } => {
                let texts = &mail.address_change_requested;
                let happened = filled(&writer.at_url(&texts.happened).with("email", email));
                let facts = vec![(&mail.time, t.moment(*at)), (&mail.address, from.clone())];
                let link = writer.address_link(&texts.link, link);
                (&texts.subject, vec![happened, Block::Facts(facts), plain(&texts.next), link])
            }
            Self::AddressConfirmation { at, from, link, .. } => {
                let texts = &mail.address_confirmation;
                let facts = vec![(&mail.time, t.moment(*at)), (&mail.address, from.clone())];
                let (happened, link) =
                    (filled(&writer.at_url(&texts.happened)), writer.address_link(&texts.link, link));
                (&texts.subject, vec![happened, Block::Facts(facts), plain(&texts.next), link])
            }
            Self::AddressInUse { at, from, .. } => {
                let texts = &mail.address_in_use;
                let facts = vec![(&mail.time, t.moment(*at)), (&mail.address, from.clone())];
                let review = writer.link(&mail.review, "/account");
                let happened = filled(&writer.at_url(&texts.happened));
                (&texts.subject, vec![happened, Block::Facts(facts), plain(&texts.next), review])
            }
            Self::AddressChangeDue { email, due_at, link, .. } => {
                let texts = &mail.address_change_due;
                let happened = writer.at_url(&texts.happened).with("email", email).with("date", t.moment(*due_at));
                let link = writer.address_link(&texts.link, link);
                (&texts.subject, vec![filled(&happened), plain(&texts.next), link])
            }
            Self::AddressChangeStopped { email, .. } => {
                (&mail.address_change_stopped.subject, writer.address_change(&mail.address_change_stopped, email))
            }
            Self::AddressChanged { email, user_id, .. } => {
                let texts = &mail.address_changed;
                let happened = filled(&writer.at_url(&texts.happened).with("email", email));
                let facts = vec![(&texts.account, user_id.to_string())];
                let review = writer.link(&mail.review, "/account");
                (&texts.subject, vec![happened, Block::Facts(facts), plain(&texts.next), review])
            }
            Self::AddressNotChanged { email, .. } => {
                (&mail.address_not_changed.subject, writer.address_change(&mail.address_not_changed, email))
            }
            Self::CredentialRevoked { credential, workspace, owner, revoked_at, .. } => {
                let texts = &mail.credential_revoked;
                let happened = match credential {
                    RevokedCredential::CliToken(name) => texts.cli_token.with("name", name),
                    RevokedCredential::App => texts.app.clone(),
                };
                let happened = happened.with("owner", owner).with("workspace", workspace);
                let happened = filled(&happened.with("date", t.moment(*revoked_at)));
                let review = writer.link(&mail.activity, "/account/activity");
                (&texts.subject, vec![happened, plain(&texts.next), review])
            }
            Self::Invitation { workspace, invited_by, expires_at, .. } => {
                (&mail.invitation.subject, writer.invitation(workspace, invited_by, *expires_at))
            }
            Self::TokenLeaked { what, ended_at, made, .. } => {
                let texts = &mail.token_leaked;
                let happened = filled(&writer.at_url(&texts.happened).with("thing", what));
                let revoked = filled(&texts.revoked.with("date", t.moment(*ended_at)));
                let review = writer.link(&mail.activity, "/account/activity");
                (&texts.subject, writer.with_made(vec![happened, revoked, plain(&texts.next), review], made))
            }
            Self::TokenExposed { what, sent_at, .. } => {
                let texts = &mail.token_exposed;
                let happened = writer.at_url(&texts.happened).with("thing", what).with("date", t.moment(*sent_at));
                let review = writer.link(&mail.review, "/account");
                (&texts.subject, vec![filled(&happened), plain(&texts.blocked), plain(&texts.next), review])
            }
            Self::DomainFailing { domain, record, lost_at, .. } => {
                (&mail.domain_failing.subject, writer.domain_failing(domain, record, *lost_at))
            }
            Self::DomainLost { domain, record, taken_over, .. } => {
                (&mail.domain_lost.subject, writer.domain_lost(domain, record, *taken_over))
            }
        }
    }
}

/// The language, the address and the settings that a mail is written with.
pub(super) struct Writer<'a> {
    pub(super) t: &'a Texts,
    pub(super) base_url: &'a str,
    pub(super) code_in_subject: bool,
}

/// A credential that was created.
struct Created<'m> {
    /// What it may do, one sentence a scope.
    may: Vec<String>,
    made_at: Timestamp,
    made_from: &'m str,
    expires_at: Timestamp,
}

impl<'a> Writer<'a> {
    fn at_url(&self, sentence: &Sentence) -> Sentence {
        sentence.with("url", self.base_url)
    }

    fn link(&self, label: &'a Text, path: &str) -> Block<'a> {
        Block::Link(label, format!("{}{path}", self.base_url))
    }

    /// Who sent the mail, and where there is help.
    fn footer(&self) -> Vec<String> {
        let sent_by = self.at_url(&self.t.mail.sent_by).to_string();
        let help = self.t.brand.contact.as_ref().map(|contact| self.t.mail.help.with("contact", contact).to_string());
        std::iter::once(sent_by).chain(help).collect()
    }

    fn requested(&self, client_id: &str, asked_at: Timestamp, asked_from: &str) -> Sentence {
        let texts = &self.t.mail.sign_in_code;
        let requested = match self.t.client(client_id) {
            Some(client) => texts.requested_by.with("client", client),
            None => texts.requested.clone(),
        };
        requested.with("date", self.t.moment(asked_at)).with("address", asked_from)
    }

    /// A code after its label, and what applies to every code.
    fn code(&self, label: &'a Text, code: &str, requested: &Sentence) -> Vec<Block<'a>> {
        let texts = &self.t.mail.sign_in_code;
        let expires = self.at_url(&texts.expires).with("wait", self.t.duration(lifetimes::OTP));
        vec![
            plain(label),
            Block::Code(halves(code)),
            filled(&expires),
            filled(requested),
            plain(&texts.ignore),
            plain(&texts.never_share),
        ]
    }

    fn created(&self, happened: &Sentence, mut facts: Vec<(&'a Text, String)>, created: Created<'_>) -> Vec<Block<'a>> {
        let (t, mail) = (self.t, &self.t.mail);
        let made = mail.created_value.with("date", t.moment(created.made_at)).with("address", created.made_from);
        facts.extend([(&mail.created, made.to_string()), (&mail.expires, t.moment(created.expires_at))]);
        let happened = filled(&self.at_url(happened));
        vec![
            happened,
            Block::Facts(facts),
            plain(&mail.permissions),
            Block::List(created.may),
            plain(&mail.not_you),
            self.link(&mail.review, "/account"),
        ]
    }

    fn passkey(&self, happened: &Sentence, name: &str, at: Timestamp, from: &str) -> Vec<Block<'a>> {
        let (t, mail) = (self.t, &self.t.mail);
        let facts = vec![(&mail.name, name.to_owned()), (&mail.time, t.moment(at)), (&mail.address, from.to_owned())];
        let review = self.link(&mail.review, "/account/security");
        vec![filled(&self.at_url(happened)), Block::Facts(facts), plain(&mail.not_you), review]
    }

    /// A change of how the user signs in, which nothing names.
    fn security_change(&self, happened: &Sentence, at: Timestamp, from: &str) -> Vec<Block<'a>> {
        let (t, mail) = (self.t, &self.t.mail);
        let facts = vec![(&mail.time, t.moment(at)), (&mail.address, from.to_owned())];
        let review = self.link(&mail.review, "/account/security");
        vec![filled(&self.at_url(happened)), Block::Facts(facts), plain(&mail.not_you), review]
    }

    fn new_sign_in(
        &self,
        with: &SignedInWith,
        at: Timestamp,
        from: &str,
        report: &Token<SignInReport>,
    ) -> (&'a Text, Vec<Block<'a>>) {
        let (t, mail, texts) = (self.t, &self.t.mail, &self.t.mail.new_sign_in);
        let (kind, label, name) = match with {
            SignedInWith::Browser(agent) => (&texts.device, &texts.on, t.device(UserAgent::from_stored(agent))),
            SignedInWith::Client(id) => (&texts.device, &texts.with, t.client_or_app(id).to_string()),
            SignedInWith::App(host) => (&texts.app, &texts.with, host.clone()),
        };
        let facts = vec![(label, name), (&mail.time, t.moment(at)), (&mail.address, from.to_owned())];
        // The link is a secret, though one that authenticates no user.
        let path = format!("{}?token={}", endpoints::SIGN_IN_REPORT.path, report.expose());
        let blocks = vec![
            filled(&self.at_url(&kind.happened)),
            Block::Facts(facts),
            plain(&texts.ignore),
            self.link(&texts.report, &path),
            filled(&texts.report_hint.with("wait", t.duration(lifetimes::SIGN_IN_REPORT))),
        ];
        (&kind.subject, blocks)
    }

    fn account_closed(
        &self,
        erased_on: Timestamp,
        facts: Option<Vec<(&'a Text, String)>>,
        workspaces: &[String],
        keep: Option<&Token<KeepAccount>>,
    ) -> Vec<Block<'a>> {
        let (t, texts) = (self.t, &self.t.mail.account_closed);
        let happened = if facts.is_some() { &texts.happened } else { &texts.by_operator };
        let mut blocks = vec![filled(&self.at_url(happened).with("date", t.moment(erased_on)))];
        blocks.extend(facts.map(Block::Facts));
        if !workspaces.is_empty() {
            blocks.extend([plain(&texts.workspaces), Block::List(workspaces.to_vec())]);
        }
        match keep {
            Some(keep) => blocks.extend([plain(&texts.keep_hint), self.keep_account(keep)]),
            None => blocks.push(plain(&texts.support)),
        }
        blocks
    }

    /// The link is a secret, though one that authenticates no user.
    fn keep_account(&self, keep: &Token<KeepAccount>) -> Block<'a> {
        let path = format!("{}?token={}", endpoints::KEEP_ACCOUNT_PAGE.path, keep.expose());
        self.link(&self.t.mail.account_closed.keep, &path)
    }

    /// What became of a change of the address.
    fn address_change(&self, texts: &'a MailAddressChange, email: &str) -> Vec<Block<'a>> {
        let happened = filled(&self.at_url(&texts.happened).with("email", email));
        vec![happened, plain(&texts.next), self.link(&self.t.mail.review, "/account")]
    }

    /// The link is a secret, though one that authenticates no user.
    fn address_link(&self, name: &'a Text, link: &Token<AddressLink>) -> Block<'a> {
        self.link(name, &format!("{}?token={}", endpoints::ADDRESS_LINK_PAGE.path, link.expose()))
    }

    fn invitation(&self, workspace: &str, invited_by: &str, expires_at: Timestamp) -> Vec<Block<'a>> {
        let texts = &self.t.mail.invitation;
        vec![
            filled(&texts.happened.with("inviter", invited_by).with("workspace", workspace)),
            self.link(&texts.view, "/workspaces"),
            filled(&texts.expires.with("date", self.t.moment(expires_at))),
            filled(&texts.ignore.with("inviter", invited_by)),
        ]
    }

    fn domain_failing(&self, domain: &str, record: &str, lost_at: Timestamp) -> Vec<Block<'a>> {
        let texts = &self.t.mail.domain_failing;
        let happened = filled(&self.at_url(&texts.happened).with("domain", domain));
        let lost = filled(&texts.lost.with("domain", domain).with("date", self.t.moment(lost_at)));
        self.with_record(vec![happened, lost], domain, record)
    }

    fn domain_lost(&self, domain: &str, record: &str, taken_over: bool) -> Vec<Block<'a>> {
        let texts = &self.t.mail.domain_lost;
        let happened = if taken_over { &texts.taken_over } else { &texts.happened };
        let happened = filled(&self.at_url(happened).with("domain", domain));
        self.with_record(vec![happened, plain(&texts.sign_in)], domain, record)
    }

    /// The DNS record to add, and where the domain is managed, follow.
    fn with_record(&self, mut said: Vec<Block<'a>>, domain: &str, record: &str) -> Vec<Block<'a>> {
        let texts = &self.t.mail.domain_record;
        let facts =
            vec![(&texts.name, domain.to_owned()), (&texts.kind, "TXT".to_owned()), (&texts.value, record.to_owned())];
        said.extend([plain(&texts.add), Block::Facts(facts), self.link(&texts.check, "/workspaces")]);
        said
    }

    /// What the session had created, and what became of it, follows.
    fn with_made(&self, mut said: Vec<Block<'a>>, made: &MadeThings) -> Vec<Block<'a>> {
        let mail = &self.t.mail;
        if !made.kept.is_empty() {
            said.extend([
                plain(&mail.kept),
                Block::List(made.kept.clone()),
                self.link(&mail.review_tokens, "/account/tokens"),
            ]);
        }
        if !made.revoked.is_empty() {
            said.extend([plain(&mail.revoked), Block::List(made.revoked.clone())]);
        }
        said
    }
}

/// A code as people read it: in two halves.
fn halves(code: &str) -> Zeroizing<String> {
    let (first, second) = code.split_at(code.len() / 2);
    Zeroizing::new(format!("{first} {second}"))
}

fn plain<'a>(text: &Text) -> Block<'a> {
    Block::Paragraph(text.to_string())
}

fn filled<'a>(sentence: &Sentence) -> Block<'a> {
    Block::Paragraph(sentence.to_string())
}
