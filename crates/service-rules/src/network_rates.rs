//! Rates for networks of every size that an address belongs to.
//!
//! One customer may have many networks of the smallest size: an IPv6 /48 contains 65,536 of them. So a request is counted
//! against its own network and against the wider ones that contain it, each with a rate of its own.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::limits::Rate;

/// Prefix lengths of the IPv4 networks that are counted, from the narrowest to the widest.
pub const IPV4_PREFIXES: [u8; 2] = [32, 24];
/// Prefix lengths of the IPv6 networks that are counted, from the narrowest to the widest.
pub const IPV6_PREFIXES: [u8; 3] = [64, 56, 48];

/// By how much the rate of a wider network exceeds that of the narrowest, unless it is configured.
const IPV4_SHARES: [u32; 2] = [1, 8];
const IPV6_SHARES: [u32; 3] = [1, 4, 16];

/// A rate for each size of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkRates {
    pub ipv4: [Rate; 2],
    pub ipv6: [Rate; 3],
}

impl NetworkRates {
    /// Gives the narrowest networks this rate and the wider ones a multiple of it: an IPv4 /24 eight times, an IPv6 /56
    /// four times and a /48 sixteen times as much.
    #[must_use]
    pub fn from_narrowest(rate: Rate) -> Self {
        let times = |share: u32| Rate {
            burst: rate.burst.saturating_mul(share),
            per_hour: rate.per_hour.saturating_mul(share),
        };
        Self { ipv4: IPV4_SHARES.map(times), ipv6: IPV6_SHARES.map(times) }
    }

    /// Rates that are this many times as high.
    #[must_use]
    pub fn times(&self, factor: u32) -> Self {
        let times = |rate: Rate| Rate {
            burst: rate.burst.saturating_mul(factor),
            per_hour: rate.per_hour.saturating_mul(factor),
        };
        Self { ipv4: self.ipv4.map(times), ipv6: self.ipv6.map(times) }
    }

    /// The networks that an address belongs to with their rates, from the narrowest to the widest.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> Vec<(IpNet, Rate)> {
        let address = address.to_canonical();
        let (prefixes, rates): (&[u8], &[Rate]) = match address {
            IpAddr::V4(_) => (&IPV4_PREFIXES, &self.ipv4),
            IpAddr::V6(_) => (&IPV6_PREFIXES, &self.ipv6),
        };
        let networks = prefixes.iter().zip(rates);
        networks.filter_map(|(prefix, rate)| Some((IpNet::new(address, *prefix).ok()?.trunc(), *rate))).collect()
    }

    /// The rate of the narrowest network, for callers that are counted by something else than their network.
    #[must_use]
    pub fn narrowest(&self) -> Rate {
        self.ipv4[0]
    }
}

/// Networks whose limits an operator raised, each with the factor by which they are higher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaisedNetworks(Vec<(IpNet, u32)>);

impl RaisedNetworks {
    #[must_use]
    pub fn new(raised: Vec<(IpNet, u32)>) -> Self {
        Self(raised)
    }

    /// The factor for all of this network or address: that of the narrowest raised network that contains it, else 1.
    #[must_use]
    pub fn factor(&self, network: impl Into<IpNet>) -> u32 {
        let network = network.into();
        let containing = self.0.iter().filter(|(raised, _)| raised.contains(&network));
        containing.max_by_key(|(raised, _)| raised.prefix_len()).map_or(1, |(_, factor)| *factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(address: &str) -> Vec<String> {
        let rates = NetworkRates::from_narrowest(Rate { burst: 10, per_hour: 30 });
        let each = rates.of(address.parse().unwrap()).into_iter();
        each.map(|(network, rate)| format!("{network} {}+{}", rate.burst, rate.per_hour)).collect()
    }

    #[test]
    fn the_narrowest_raised_network_counts() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let raised = RaisedNetworks::new(vec![
            (net("203.0.113.0/24"), 4),
            (net("203.0.113.7/32"), 20),
            (net("2001:db8::/32"), 3),
        ]);
        for (network, factor) in [
            ("203.0.113.7/32", 20),
            ("203.0.113.8/32", 4),
            ("203.0.113.0/24", 4),
            ("203.0.0.0/16", 1),
            ("198.51.100.7/32", 1),
            ("2001:db8:1::/48", 3),
        ] {
            assert_eq!(raised.factor(net(network)), factor, "{network}");
        }
        let rates = NetworkRates::from_narrowest(Rate { burst: 10, per_hour: 30 }).times(4);
        assert_eq!(rates.narrowest(), Rate { burst: 40, per_hour: 120 });
    }

    #[test]
    fn an_address_is_counted_in_every_network_around_it_rv_09() {
        assert_eq!(networks("203.0.113.9"), ["203.0.113.9/32 10+30", "203.0.113.0/24 80+240"]);
        assert_eq!(networks("::ffff:203.0.113.9"), networks("203.0.113.9"));
        assert_eq!(
            networks("2001:db8:1:2345:6:7:8:9"),
            ["2001:db8:1:2345::/64 10+30", "2001:db8:1:2300::/56 40+120", "2001:db8:1::/48 160+480"]
        );
    }
}
