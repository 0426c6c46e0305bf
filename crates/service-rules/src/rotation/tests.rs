//! Every row of the table, and what comes before it.

use super::*;

const NOW: i64 = 1_800_000_000;
const NEAR: &str = "203.0.113.77";
const FAR: &str = "198.51.100.9";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn grant() -> Grant {
    Grant {
        client_id: "service-cli".into(),
        generations: Generations { base: 5, issued: 8 },
        rotated_at: at(NOW),
        rotated_from: Some("203.0.113.4".parse().unwrap()),
        expires_at: at(NOW + lifetimes::REFRESH_ABSOLUTE),
        ended: None,
        user_disabled: false,
        workspace_left: false,
        sso_until: None,
    }
}

fn presented(generation: i32) -> PresentedRefreshToken<'static> {
    PresentedRefreshToken { genuine: true, generation, client_id: Some("service-cli"), address: NEAR.parse().unwrap() }
}

#[track_caller]
fn check(presented: &PresentedRefreshToken<'_>, grant: &Grant, now: i64, expected: RotationVerdict) {
    assert_eq!(judge(presented, grant, at(now)), expected, "{presented:?} {grant:?}");
}

#[test]
fn each_place_on_the_line_has_its_verdict() {
    let line = [
        (0, RotationVerdict::Revoke(Reason::Replayed)),
        (4, RotationVerdict::Revoke(Reason::Replayed)),
        (5, RotationVerdict::Repeat),
        (6, RotationVerdict::Revoke(Reason::Superseded)),
        (7, RotationVerdict::Revoke(Reason::Superseded)),
        (8, RotationVerdict::Rotate),
        (9, RotationVerdict::FastForward),
        (i32::MAX, RotationVerdict::FastForward),
    ];
    for (generation, expected) in line {
        check(&presented(generation), &grant(), NOW + 1, expected);
    }
}

#[test]
fn what_is_not_ours_or_another_clients_changes_nothing_rf_07() {
    for generation in [0, 4, 5, 6, 8, 9] {
        let refused = RotationVerdict::Refuse(RotationRefusal::NotAccepted);
        check(&PresentedRefreshToken { genuine: false, ..presented(generation) }, &grant(), NOW, refused);
        for client_id in [None, Some(""), Some("service-web"), Some("SERVICE-CLI")] {
            check(&PresentedRefreshToken { client_id, ..presented(generation) }, &grant(), NOW, refused);
            let ended = Grant { ended: Some(Reason::Replayed), ..grant() };
            check(&PresentedRefreshToken { client_id, ..presented(generation) }, &ended, NOW, refused);
        }
    }
}

#[test]
fn a_repeat_is_soon_and_near_and_anything_else_supersedes() {
    let far = PresentedRefreshToken { address: FAR.parse().unwrap(), ..presented(5) };
    check(&presented(5), &grant(), NOW + 60, RotationVerdict::Repeat);
    check(&presented(5), &grant(), NOW + 61, RotationVerdict::Supersede);
    check(&far, &grant(), NOW, RotationVerdict::Supersede);
    check(&presented(5), &Grant { rotated_from: None, ..grant() }, NOW, RotationVerdict::Supersede);
    // A clock that went back is not a reason to write.
    check(&presented(5), &grant(), NOW - 5, RotationVerdict::Repeat);
}

#[test]
fn a_dead_grant_says_why_rf_09() {
    let dead = |reason| RotationVerdict::Refuse(RotationRefusal::Inactive(reason));
    let grant = grant();
    for generation in [4, 5, 6, 8, 9] {
        for reason in Reason::ALL {
            check(&presented(generation), &Grant { ended: Some(reason), ..grant.clone() }, NOW, dead(reason));
        }
        check(&presented(generation), &grant, NOW + lifetimes::REFRESH_ABSOLUTE, dead(Reason::Expired));
        check(&presented(generation), &grant, NOW + lifetimes::REFRESH_IDLE, dead(Reason::Idle));
    }
    check(&presented(8), &grant, NOW + lifetimes::REFRESH_IDLE - 1, RotationVerdict::Rotate);
    let active = Grant { rotated_at: at(NOW + lifetimes::REFRESH_ABSOLUTE - 1), ..grant };
    check(&presented(8), &active, NOW + lifetimes::REFRESH_ABSOLUTE - 1, RotationVerdict::Rotate);
    check(&presented(8), &active, NOW + lifetimes::REFRESH_ABSOLUTE, dead(Reason::Expired));
}

#[test]
fn who_has_no_standing_is_refused_but_a_replay_is_never_forgotten_rf_10() {
    let disabled = Grant { user_disabled: true, ..grant() };
    let left = Grant { workspace_left: true, ..grant() };
    for generation in [5, 8, 9] {
        let dead = |reason| RotationVerdict::Refuse(RotationRefusal::Inactive(reason));
        check(&presented(generation), &disabled, NOW, dead(Reason::UserDisabled));
        check(&presented(generation), &left, NOW, dead(Reason::WorkspaceRemoved));
    }
    for grant in [disabled, left] {
        check(&presented(4), &grant, NOW, RotationVerdict::Revoke(Reason::Replayed));
        check(&presented(6), &grant, NOW, RotationVerdict::Revoke(Reason::Superseded));
    }
}

#[test]
fn a_verdict_moves_the_line_as_it_says() {
    let before = Generations { base: 5, issued: 8 };
    let stand = |verdict, presented| next(verdict, presented, before).map(|after| (after.base, after.issued));
    assert_eq!(stand(RotationVerdict::Rotate, 8), Some((8, 9)));
    assert_eq!(stand(RotationVerdict::FastForward, 12), Some((12, 13)));
    assert_eq!(stand(RotationVerdict::Supersede, 5), Some((5, 9)));
    assert_eq!(stand(RotationVerdict::Repeat, 5), None);
    assert_eq!(stand(RotationVerdict::Revoke(Reason::Replayed), 4), None);
    assert_eq!(stand(RotationVerdict::Refuse(RotationRefusal::NotAccepted), 8), None);
    assert_eq!(stand(RotationVerdict::FastForward, i32::MAX), None);
}

#[test]
fn a_grant_waits_for_the_company_and_a_replay_is_noticed_all_the_same() {
    let until = |seconds: i64| Grant { sso_until: Some(at(NOW + seconds)), ..grant() };
    check(&presented(8), &until(10), NOW + 9, RotationVerdict::Rotate);
    for generation in [5, 8, 9] {
        let refused = RotationVerdict::Refuse(RotationRefusal::Inactive(Reason::SsoAgain));
        check(&presented(generation), &until(10), NOW + 10, refused);
    }
    check(&presented(4), &until(10), NOW + 10, RotationVerdict::Revoke(Reason::Replayed));
    let revoked = Grant { ended: Some(Reason::SsoSignedOut), ..until(10) };
    check(&presented(8), &revoked, NOW + 10, RotationVerdict::Refuse(RotationRefusal::Inactive(Reason::SsoSignedOut)));
}
