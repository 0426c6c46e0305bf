//! Many people behind one network address: those with known devices sign in, a stranger among them finds out nothing, and an
//! operator may raise the limits of a network.

use anyhow::{Result, anyhow};
use futures_util::future::try_join_all;
use serde_json::json;
use service_api::ids::UserId;
use service_rules::{email::Address, lifetimes, signing::later};
use service_server::{
    crypto::{digest::sha256, random, root_keys::Purpose},
    flows::sign_in::email_key::email_key,
    store::{self, devices::KnownDevice},
};
use service_testkit::server::{Setup, TestServer};

use crate::support::devices::{Caller, with_default_limits};
use crate::support::otp::{assert_limited, assert_refused, wrong};

const OFFICE: &str = "198.51.100.7";
const PEOPLE: usize = 1_000;
const AT_ONCE: usize = 10;
const TEN_MINUTES: i64 = 600;

fn email_of(person: usize) -> String {
    format!("person{person}@acme.test")
}

/// Stores this many users who signed in before, each on a device; returns the secrets of the devices.
async fn known_devices(server: &TestServer, people: usize) -> Result<Vec<String>> {
    let (app, now) = (&server.app, server.now());
    let (db, mut secrets) = (app.database.begin().await?, Vec::new());
    for person in 0..people {
        let address = Address::parse(&email_of(person)).map_err(|_| anyhow!("not an address"))?;
        let (user_id, secret): (UserId, _) = (random::id(now)?, random::device_secret()?.expose().to_owned());
        server.leaks.register("device secret", &secret);
        store::emails::claim(&db, email_key(app, &db, &address).await?, user_id, now).await?;
        store::users::insert(&db, user_id, &address, now).await?;
        let address_mac = &app.root_keys.mac(Purpose::DeviceAddress, &[address.as_str().as_bytes()]).bytes;
        let expires_at = later(now, lifetimes::DEVICE);
        let device = KnownDevice { digest: &sha256(&secret), address_mac, user_id, now, expires_at };
        store::devices::insert(&db, &device).await?;
        secrets.push(secret);
    }
    db.commit().await?;
    Ok(secrets)
}

/// Signs in as the command does: asks for the methods, for a code, and enters it. Every tenth person mistypes it once.
async fn sign_in(caller: &Caller<'_>, person: usize) -> Result<()> {
    let email = email_of(person);
    let options = caller.post("/v1/login-options", json!({ "email": email })).await?;
    assert_eq!(options.status, 200, "{email}: {}", options.text);
    let (otp_id, code) = caller.get_code(&email).await?;
    if person.is_multiple_of(10) {
        assert_refused(&caller.enter(&otp_id, &wrong(&code, 1)?).await?, 400, "invalid_grant");
    }
    let entered = caller.enter(&otp_id, &code).await?;
    assert_eq!(entered.status, 200, "{email}: {}", entered.text);
    Ok(())
}

#[test]
fn a_thousand_known_devices_behind_one_address_sign_in_beside_an_enumerator_rv_08() -> Result<()> {
    with_default_limits().run(async |server| {
        let secrets = known_devices(server, PEOPLE).await?;
        let rounds = PEOPLE / AT_ONCE;
        let began = server.now();
        // The stranger has a device, too, but not one of the addresses that it asks for.
        let stranger = Caller { device: secrets.first().cloned(), ..Caller::at(server, OFFICE) };
        let (mut sent, mut listed) = (0, 0);
        for round in 0..rounds {
            for number in round * AT_ONCE..(round + 1) * AT_ONCE {
                let email = format!("fresh{number}@acme.test");
                listed += i64::from(stranger.post("/v1/login-options", json!({ "email": email })).await?.status == 200);
                let asked = stranger.ask(&email).await?;
                if asked.status == 201 {
                    sent += 1;
                } else {
                    assert_limited(&asked, "otp-network", 300, 3_600);
                }
            }
            let people = secrets.iter().enumerate().skip(round * AT_ONCE).take(AT_ONCE);
            let callers = people.map(|(person, secret)| {
                (Caller { device: Some(secret.clone()), ..Caller::at(server, OFFICE) }, person)
            });
            let signing_in = callers.map(async |(caller, person)| sign_in(&caller, person).await);
            try_join_all(signing_in.collect::<Vec<_>>()).await?;
            server.advance(TEN_MINUTES / i64::try_from(rounds)?);
        }
        assert_eq!(server.now().duration_since(began).as_secs(), TEN_MINUTES);
        // A hundred at once, then one in twelve seconds; sixty at once, then one a second.
        assert!((140..=150).contains(&sent), "{sent} codes for fresh addresses");
        assert!((600..=660).contains(&listed), "{listed} lists of methods for fresh addresses");
        println!("{PEOPLE} known devices signed in; of {PEOPLE} fresh addresses {sent} got a code");
        Ok(())
    })
}

#[test]
fn a_known_device_has_a_limit_of_its_own_on_login_options_rv_08() -> Result<()> {
    with_default_limits().set("limits.login_options_per_network", "3+60").run(async |server| {
        let mut owner = Caller::at(server, OFFICE);
        owner.sign_in("ann@acme.test").await?;
        let ask =
            async |caller: &Caller<'_>, email: &str| caller.post("/v1/login-options", json!({ "email": email })).await;
        let stranger = Caller::at(server, OFFICE);
        for _ in 0..3 {
            assert_eq!(ask(&stranger, "ann@acme.test").await?.status, 200);
        }
        for caller in [&stranger, &owner] {
            assert_limited(&ask(caller, "bob@acme.test").await?, "login-options-network", 60, 3_600);
        }
        for _ in 0..3 {
            assert_eq!(ask(&owner, "ann@acme.test").await?.status, 200);
        }
        assert_limited(&ask(&owner, "ann@acme.test").await?, "login-options-device", 60, 3_600);
        Ok(())
    })
}

#[test]
fn an_operator_raises_the_limits_of_a_network_and_of_no_other_ot_12() -> Result<()> {
    let setup = Setup::default().set("http.trusted_proxies", "127.0.0.1/32");
    let setup = setup.set("limits.otp_sends_per_network", "2+1").set("limits.raised_networks", "198.51.100.7/32=4");
    setup.run(async |server| {
        let mut number = 0;
        let mut fill = async |address: &str, quota| {
            for sent in 0..100 {
                number += 1;
                let asked = Caller::at(server, address).ask(&format!("person{number}@acme.test")).await?;
                if asked.status != 201 {
                    assert_limited(&asked, "otp-network", quota, 3_600);
                    return anyhow::Ok(sent);
                }
            }
            anyhow::bail!("{address} has no limit");
        };
        assert_eq!(fill(OFFICE, 4).await?, 8);
        assert_eq!(fill("203.0.113.9", 1).await?, 2);
        // The /24 has room for sixteen; of that the raised network used as much as any other.
        for neighbor in 10..17 {
            assert_eq!(fill(&format!("198.51.100.{neighbor}"), 1).await?, 2, "{neighbor}");
        }
        assert_eq!(fill("198.51.100.20", 8).await?, 0);
        Ok(())
    })
}
