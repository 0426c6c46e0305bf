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

fn endings(endings: &[Ending]) -> Endings {
    let mut set = Endings::with_capacity(1_000);
    endings.iter().cloned().for_each(|ending| set.insert(ending));
    set
}

fn dead(subject: &Subject) -> Result<(), Refusal> {
    match subject {
        Subject::SigningKey(_) => Err(Refusal::Invalid),
        _ => Err(Refusal::Ended(Reason::RevokedByAdmin)),
    }
}

fn subjects() -> [Subject; 6] {
    [
        Subject::Grant(id(3)),
        Subject::User(id(1)),
        Subject::Membership(id(1), id(4)),
        Subject::Workspace(id(4)),
        Subject::SigningKey("k".into()),
        Subject::Everybody,
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
    ];
    for subject in subjects() {
        let set = endings(&[Ending::of(subject.clone(), Reason::RevokedByAdmin, at(NOW))]);
        assert_eq!(set.judge(&claims(NOW), "k"), dead(&subject), "{subject:?}");
    }
    let set = endings(&others.map(|subject| Ending::of(subject, Reason::RevokedByAdmin, at(NOW))));
    assert_eq!(set.judge(&claims(NOW), "k"), Ok(()));
}

#[test]
fn users_may_come_back_and_grants_and_keys_may_not() {
    for subject in subjects() {
        let set = endings(&[Ending::of(subject.clone(), Reason::UserDisabled, at(NOW))]);
        let for_good = matches!(subject, Subject::Grant(_) | Subject::SigningKey(_));
        assert!(set.judge(&claims(NOW + lifetimes::CLOCK_SKEW - 1), "k").is_err(), "{subject:?}");
        let later = set.judge(&claims(NOW + lifetimes::CLOCK_SKEW), "k");
        assert_eq!(later.is_err(), for_good, "{subject:?}");
    }
}

#[test]
fn a_second_that_has_begun_is_not_over() {
    let begun = Timestamp::from_millisecond(NOW * 1_000 + 1).unwrap();
    let ending = Ending { not_before: begun, ..Ending::of(Subject::Everybody, Reason::RevokedByAdmin, at(NOW)) };
    let set = endings(&[ending]);
    assert!(set.judge(&claims(NOW), "k").is_err());
    assert!(set.judge(&claims(NOW + 1), "k").is_ok());
}

/// Of two levels the one must not hide the other.
#[test]
fn every_level_counts() {
    let old = NOW - 10_000;
    for stale in subjects() {
        for fresh in subjects() {
            let weak = Ending { not_before: at(old), ..Ending::of(stale.clone(), Reason::Leaked, at(old)) };
            let strong = Ending::of(fresh.clone(), Reason::RevokedByAdmin, at(NOW));
            for set in [endings(&[weak.clone(), strong.clone()]), endings(&[strong, weak])] {
                assert!(set.judge(&claims(NOW), "k").is_err(), "{stale:?} {fresh:?}");
            }
        }
    }
}

#[test]
fn an_ending_outlives_every_token_that_it_concerns() {
    for subject in subjects() {
        let ending = Ending::of(subject, Reason::RevokedByUser, at(NOW));
        let mut set = endings(std::slice::from_ref(&ending));
        let last = claims(NOW + lifetimes::CLOCK_SKEW - 1);
        let dies = last.iat + lifetimes::LONGEST_ACCESS_TOKEN + lifetimes::CLOCK_SKEW;
        set.forget_expired(at(dies));
        assert!(set.judge(&last, "k").is_err());
        set.forget_expired(ending.forget_at);
        assert!(set.is_empty());
    }
}

#[test]
fn a_full_set_forgets_the_oldest_and_revives_nothing() {
    let mut set = Endings::with_capacity(3);
    for number in 0..10 {
        let subject = Subject::Grant(id(100 + number));
        set.insert(Ending::of(subject, Reason::RevokedByUser, at(NOW + i64::try_from(number).unwrap())));
    }
    assert_eq!(set.len(), 3);
    let of = |number: u128, iat| Claims { grant: id(100 + number), ..claims(iat) };
    for number in 0..10 {
        // Issued at any time before the grant was ended.
        for iat in [NOW - 3_000, NOW, NOW + i64::try_from(number).unwrap()] {
            assert!(set.judge(&of(number, iat), "k").is_err(), "{number} {iat}");
        }
    }
    // Whoever was issued a token after the last forgotten ending does not notice.
    assert_eq!(set.judge(&of(99, NOW + 200), "k"), Ok(()));
}

#[test]
fn grants_end_with_the_epoch() {
    assert_eq!(endings(&[]).epoch(), None);
    let set = endings(&[Ending::of(Subject::Everybody, Reason::RevokedByAdmin, at(NOW))]);
    assert_eq!(set.epoch(), Some(at(NOW + lifetimes::CLOCK_SKEW)));
}
