//! Every subject, every level, and a set that is full.

use uuid::Uuid;

use super::*;

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn id<I: From<Uuid>>(number: u128) -> I {
    Uuid::from_u128(number).into()
}

fn claims(iat: i64) -> Claims {
    Claims {
        iss: String::new(),
        sub: id(1),
        aud: String::new(),
        exp: iat + 900,
        iat,
        jti: id(2),
        client_id: "service-cli".into(),
        scope: "read".into(),
        grant: id(3),
        workspace: Some(id(4)),
        nbf: None,
    }
}

fn revocations(revocations: &[Revocation]) -> RevocationSet {
    let mut set = RevocationSet::with_capacity(1_000);
    revocations.iter().cloned().for_each(|revocation| set.insert(revocation));
    set
}

fn dead(subject: &Subject) -> Result<RevocationStatus, BearerError> {
    match subject {
        Subject::SigningKey(_) => Err(BearerError::Invalid),
        _ => Err(BearerError::Revoked(Reason::RevokedByAdmin)),
    }
}

fn subjects() -> [Subject; 7] {
    [
        Subject::Grant(id(3)),
        Subject::User(id(1)),
        Subject::Membership(id(1), id(4)),
        Subject::Workspace(id(4)),
        Subject::SigningKey("k".into()),
        Subject::Client("service-cli".into()),
        Subject::AllUsers,
    ]
}

#[test]
fn each_subject_ends_its_tokens_and_no_others() {
    let others = [
        Subject::Grant(id(9)),
        Subject::User(id(9)),
        Subject::Membership(id(1), id(9)),
        Subject::Membership(id(9), id(4)),
        Subject::Workspace(id(9)),
        Subject::SigningKey("other".into()),
        Subject::Client("service-web".into()),
    ];
    for subject in subjects() {
        let set = revocations(&[Revocation::of(subject.clone(), Reason::RevokedByAdmin, at(NOW))]);
        assert_eq!(set.judge(&claims(NOW), "k"), dead(&subject), "{subject:?}");
    }
    let set = revocations(&others.map(|subject| Revocation::of(subject, Reason::RevokedByAdmin, at(NOW))));
    assert_eq!(set.judge(&claims(NOW), "k"), Ok(RevocationStatus::Live));
}

#[test]
fn users_may_come_back_and_grants_and_keys_may_not() {
    for subject in subjects() {
        let set = revocations(&[Revocation::of(subject.clone(), Reason::UserDisabled, at(NOW))]);
        let for_good = matches!(subject, Subject::Grant(_) | Subject::SigningKey(_));
        assert!(set.judge(&claims(NOW + lifetimes::CLOCK_SKEW - 1), "k").is_err(), "{subject:?}");
        let later = set.judge(&claims(NOW + lifetimes::CLOCK_SKEW), "k");
        assert_eq!(later.is_err(), for_good, "{subject:?}");
    }
}

#[test]
fn a_second_that_has_begun_is_not_over() {
    let begun = Timestamp::from_millisecond(NOW * 1_000 + 1).unwrap();
    let revocation =
        Revocation { not_before: begun, ..Revocation::of(Subject::AllUsers, Reason::RevokedByAdmin, at(NOW)) };
    let set = revocations(&[revocation]);
    assert!(set.judge(&claims(NOW), "k").is_err());
    assert!(set.judge(&claims(NOW + 1), "k").is_ok());
}

/// Of two levels the one must not hide the other.
#[test]
fn every_level_counts() {
    let old = NOW - 10_000;
    for stale in subjects() {
        for fresh in subjects() {
            let weak = Revocation { not_before: at(old), ..Revocation::of(stale.clone(), Reason::Leaked, at(old)) };
            let strong = Revocation::of(fresh.clone(), Reason::RevokedByAdmin, at(NOW));
            for set in [revocations(&[weak.clone(), strong.clone()]), revocations(&[strong, weak])] {
                assert!(set.judge(&claims(NOW), "k").is_err(), "{stale:?} {fresh:?}");
            }
        }
    }
}

#[test]
fn an_ending_outlives_every_token_that_it_concerns() {
    for subject in subjects() {
        let revocation = Revocation::of(subject, Reason::RevokedByUser, at(NOW));
        let mut set = revocations(std::slice::from_ref(&revocation));
        let last = claims(NOW + lifetimes::CLOCK_SKEW - 1);
        let dies = last.iat + lifetimes::LONGEST_ACCESS_TOKEN + lifetimes::CLOCK_SKEW;
        set.forget_expired(at(dies));
        assert!(set.judge(&last, "k").is_err());
        set.forget_expired(revocation.forget_at);
        assert!(set.is_empty());
    }
}

#[test]
fn a_full_set_forgets_the_oldest_and_revives_nothing() {
    let mut set = RevocationSet::with_capacity(3);
    for number in 0..10 {
        let subject = Subject::Grant(id(100 + number));
        set.insert(Revocation::of(subject, Reason::RevokedByUser, at(NOW + i64::try_from(number).unwrap())));
    }
    assert_eq!(set.len(), 3);
    let of = |number: u128, iat| Claims { grant: id(100 + number), ..claims(iat) };
    for number in 0..10 {
        // Issued at any time before the grant was ended.
        for iat in [NOW - 3_000, NOW, NOW + i64::try_from(number).unwrap()] {
            assert!(set.judge(&of(number, iat), "k").is_err(), "{number} {iat}");
        }
    }
    // A token that was issued after the last dropped revocation is still accepted.
    assert_eq!(set.judge(&of(99, NOW + 200), "k"), Ok(RevocationStatus::Live));
}

#[test]
fn grants_end_with_the_epoch() {
    assert_eq!(revocations(&[]).epoch(), None);
    let set = revocations(&[Revocation::of(Subject::AllUsers, Reason::RevokedByAdmin, at(NOW))]);
    assert_eq!(set.epoch(), Some(at(NOW + lifetimes::CLOCK_SKEW)));
}

#[test]
fn a_revocation_of_an_unknown_kind_makes_every_older_token_be_looked_up_rv_33() {
    let set = revocations(&[Revocation::of(Subject::Unknown, Reason::RevokedByAdmin, at(NOW))]);
    let settled = NOW + lifetimes::CLOCK_SKEW;
    assert_eq!(set.judge(&claims(settled - 1), "k"), Ok(RevocationStatus::LookUp));
    assert_eq!(set.judge(&claims(settled), "k"), Ok(RevocationStatus::Live));
    assert!(!set.is_unchanged(id(9), id(1), None, settled - 1));
    assert!(set.is_unchanged(id(9), id(1), None, settled));
}

/// One of an unknown kind may last an hour and reach far ahead, another a year and reach less far.
#[test]
fn of_two_unknown_kinds_neither_hides_the_other_rv_33() {
    let short = Revocation { not_before: at(NOW + 3_600), forget_at: at(NOW + 3_600), ..unknown() };
    let long = Revocation { not_before: at(NOW + 30), forget_at: at(NOW + 1_000_000), ..unknown() };
    for mut set in [revocations(&[short.clone(), long.clone()]), revocations(&[long, short])] {
        assert_eq!(set.judge(&claims(NOW + 3_599), "k"), Ok(RevocationStatus::LookUp));
        set.forget_expired(at(NOW + 500_000));
        assert_eq!(set.judge(&claims(NOW), "k"), Ok(RevocationStatus::LookUp));
        set.forget_expired(at(NOW + 1_000_000));
        assert!(set.is_empty());
    }
}

fn unknown() -> Revocation {
    Revocation::of(Subject::Unknown, Reason::RevokedByAdmin, at(NOW))
}

fn grant_revoked_at(number: u128, second: i64) -> Revocation {
    Revocation::of(Subject::Grant(id(number)), Reason::Replayed, at(second))
}

#[test]
fn a_grant_and_a_cli_token_with_one_id_are_two_subjects() {
    let set = revocations(&[Revocation::of(Subject::CliToken(id(3)), Reason::Leaked, at(NOW))]);
    assert_eq!(set.judge(&claims(NOW), "k"), Ok(RevocationStatus::Live));
    assert!(!set.is_unchanged(id(3), id(1), None, NOW));
    let both =
        revocations(&[Revocation::of(Subject::CliToken(id(3)), Reason::Leaked, at(NOW)), grant_revoked_at(3, NOW)]);
    assert_eq!(both.judge(&claims(NOW), "k"), Err(BearerError::Revoked(Reason::Replayed)));
    assert_eq!(both.len(), 2);
}

#[test]
fn a_grant_that_was_revoked_twice_is_forgotten_last() {
    let mut set = revocations(&[grant_revoked_at(3, NOW), grant_revoked_at(3, NOW + 600), grant_revoked_at(3, NOW)]);
    assert_eq!(set.len(), 1);
    let last_day = grant_revoked_at(3, NOW + 600).forget_at;
    set.forget_expired(at(last_day.as_second() - 1));
    assert!(set.judge(&claims(NOW), "k").is_err());
    set.forget_expired(at(last_day.as_second() + 60));
    assert!(set.is_empty());
}

/// Places in the queue wrap around after 2³² revocations; here a queue moves on and on.
#[test]
fn revocations_that_come_and_go_are_found_as_long_as_they_last() {
    let mut set = RevocationSet::with_capacity(100_000);
    for number in 0..20_000_i64 {
        let now = NOW + 10 * number;
        set.insert(grant_revoked_at(u128::try_from(number).unwrap(), now));
        set.forget_expired(at(now));
        let (newest, expired) = (Claims { grant: id(u128::try_from(number).unwrap()), ..claims(now) }, number - 5_000);
        assert!(set.judge(&newest, "k").is_err());
        if let Ok(expired) = u128::try_from(expired) {
            assert!(set.judge(&Claims { grant: id(expired), ..claims(now) }, "k").is_ok());
        }
    }
    assert!(set.len() < 1_000, "{}", set.len());
}

/// The most revocations that a node keeps, and what they cost it.
#[test]
fn two_million_revocations_take_thirty_two_bytes_each() {
    const MOST: usize = 2_000_000;
    let mut set = RevocationSet::with_capacity(MOST);
    for number in 0..2_000_000 {
        set.insert(grant_revoked_at(number, NOW));
    }
    println!("{} bytes for {MOST} revocations", set.allocated());
    assert!(set.allocated() <= 32 * MOST && set.len() == MOST);
    assert!(set.judge(&Claims { grant: id(1_999_999), ..claims(NOW) }, "k").is_err());
    assert!(set.judge(&Claims { grant: id(2_000_000), ..claims(NOW) }, "k").is_ok());
}

#[test]
fn a_changed_role_revokes_no_token_and_is_read_again() {
    let set = revocations(&[Revocation::of(Subject::Role(id(1), id(4)), Reason::RevokedByAdmin, at(NOW))]);
    assert_eq!(set.judge(&claims(NOW), "k"), Ok(RevocationStatus::Live));
    assert!(set.is_unchanged(id(9), id(1), Some(id(4)), NOW));
    assert!(!set.is_role_unchanged(id(1), id(4), NOW));
    assert!(set.is_role_unchanged(id(1), id(4), NOW + lifetimes::CLOCK_SKEW));
    assert!(set.is_role_unchanged(id(1), id(9), NOW) && set.is_role_unchanged(id(9), id(4), NOW));
    for subject in
        [Subject::Membership(id(1), id(4)), Subject::Workspace(id(4)), Subject::User(id(1)), Subject::AllUsers]
    {
        let set = revocations(&[Revocation::of(subject, Reason::RevokedByAdmin, at(NOW))]);
        assert!(!set.is_role_unchanged(id(1), id(4), NOW));
    }
}
