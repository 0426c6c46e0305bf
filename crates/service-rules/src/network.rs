//! The network address of a caller behind trusted proxies, and the network that the address belongs to.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

/// The network that rate limits count by: an IPv4 address, or the /64 that one IPv6 customer has.
#[must_use]
pub fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// The network that one client may move in between two requests: the /24 of an IPv4 address, the /64 of an IPv6 address.
#[must_use]
pub fn near(address: IpAddr) -> IpAddr {
    match counted(address) {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::from([a, b, c, 0])
        }
        network @ IpAddr::V6(_) => network,
    }
}

/// The network that audit events name in clear text: the /24 of an IPv4 address, the /48 of an IPv6 address. Many callers
/// share one.
#[must_use]
pub fn recorded(address: IpAddr) -> IpNet {
    let address = address.to_canonical();
    let length = if address.is_ipv4() { 24 } else { 48 };
    IpNet::new_assert(address, length).trunc()
}

/// Networks that are not on the public internet: loopback, private and special-purpose ones (RFC 6890 and its registries).
const NOT_PUBLIC: [&str; 32] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "::ffff:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
];

/// Whether an address is on the public internet.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_in = |network: &&str| network.parse::<IpNet>().is_ok_and(|network| network.contains(&address));
    // Only this part of IPv6 is allocated for global unicast.
    (address.is_ipv4() || is_in(&"2000::/3")) && !NOT_PUBLIC.iter().any(is_in)
}

/// The address of the caller. Follows `X-Forwarded-For` from the right, as long as the hop that wrote an entry is trusted.
///
/// A value that is not an address ends the walk at the hop that sent it: an unreadable value must never give a caller
/// more room in a rate limit.
#[must_use]
pub fn caller(peer: IpAddr, forwarded: &str, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let mut address = peer.to_canonical();
    for hop in forwarded.rsplit(',') {
        if !is_trusted(address) {
            break;
        }
        match hop.trim_matches([' ', '\t']).parse::<IpAddr>() {
            Ok(next) => address = next.to_canonical(),
            Err(_) => break,
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(peer: &str, forwarded: &str, expected: &str) {
        let trusted = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let found = caller(peer.parse().unwrap(), forwarded, &trusted);
        assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {forwarded:?}");
    }

    #[test]
    fn the_record_names_a_network_and_not_a_caller_rv_18() {
        for (address, network) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            ("127.0.0.1", "127.0.0.0/24"),
        ] {
            assert_eq!(recorded(address.parse().unwrap()).to_string(), network, "{address}");
        }
    }

    #[test]
    fn only_addresses_of_the_internet_are_public_ss_01() {
        for inward in [
            "127.0.0.1",
            "10.1.2.3",
            "169.254.169.254",
            "0.0.0.0",
            "192.168.0.1",
            "172.31.255.255",
            "100.64.0.1",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "fe80::1",
            "fd00::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
            "198.18.0.1",
            "::127.0.0.1",
        ] {
            let public = is_public(inward.parse().unwrap());
            assert_eq!(public, inward == "::ffff:8.8.8.8", "{inward}");
        }
        for outward in ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "172.32.0.1", "100.128.0.1"] {
            assert!(is_public(outward.parse().unwrap()), "{outward}");
        }
    }

    #[test]
    fn untrusted_callers_cannot_name_their_address() {
        check("203.0.113.9", "1.2.3.4", "203.0.113.9");
        check("203.0.113.9", "a", "203.0.113.9");
    }

    #[test]
    fn trusted_hops_are_followed_from_the_right() {
        check("10.0.0.1", "203.0.113.9", "203.0.113.9");
        check("10.0.0.1", "1.2.3.4, 203.0.113.9", "203.0.113.9");
        check("10.0.0.1", "1.2.3.4, 203.0.113.9, 10.0.0.2", "203.0.113.9");
        check("fd00::1", "2001:db8::7", "2001:db8::7");
        check("::ffff:10.0.0.1", "203.0.113.9", "203.0.113.9");
    }

    #[test]
    fn what_cannot_be_read_ends_the_walk() {
        check("10.0.0.1", "", "10.0.0.1");
        check("10.0.0.1", "203.0.113.9, unknown", "10.0.0.1");
        check("10.0.0.1", "203.0.113.9:4711", "10.0.0.1");
    }

    #[test]
    fn neighbours_share_a_network() {
        let near = |text: &str| near(text.parse().unwrap()).to_string();
        assert_eq!(near("203.0.113.9"), "203.0.113.0");
        assert_eq!(near("::ffff:203.0.113.200"), "203.0.113.0");
        assert_eq!(near("203.0.114.9"), "203.0.114.0");
        assert_eq!(near("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn an_ipv6_customer_counts_as_one() {
        let count = |text: &str| counted(text.parse().unwrap()).to_string();
        assert_eq!(count("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(count("::ffff:203.0.113.9"), "203.0.113.9");
        assert_eq!(count("203.0.113.9"), "203.0.113.9");
    }
}
