//! Which addresses requests may go to: those that are anybody's to reach, and those that the operator listed.
//!
//! An IPv6 address that stands for one of IPv4 (mapped, compatible, NAT64, 6to4) may be reached if that one may.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A network that the operator listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let address = |text: &str| text.parse::<IpAddr>().map(IpNet::from).ok();
        let network = text.parse().ok().or_else(|| address(text));
        network
            .map(Network)
            .ok_or_else(|| format!("{text:?} is neither a network, such as 10.1.0.0/16, nor an address"))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the operator listed.
#[derive(Debug, Clone)]
pub struct Allowed(Arc<[IpNet]>);

impl Allowed {
    pub(super) fn new(networks: &[Network]) -> Allowed {
        Allowed(networks.iter().map(|network| network.0).collect())
    }

    /// Whether requests may go to this address.
    pub fn may_reach(&self, address: IpAddr) -> bool {
        let meant = meant(address);
        let listed = |address: &IpAddr| self.0.iter().any(|network| network.contains(address));
        listed(&address) || meant.is_some_and(|meant| listed(&meant) || is_public(meant))
    }
}

/// The address that is reached in the end; none for one that leads nowhere.
fn meant(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(v6) = address else { return Some(address) };
    let bytes = v6.octets();
    let v4 =
        |at: usize| Some(IpAddr::V4(Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])));
    match v6.segments() {
        // Mapped, translated, NAT64, and 6to4.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => v4(12),
        [0x2002, ..] => v4(2),
        // Compatible, but for `::` and `::1`.
        [0, 0, 0, 0, 0, 0, high, _] if high > 0 => v4(12),
        _ => Some(address),
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

/// What is not anybody's to reach, by the registry of special-purpose addresses (RFC 6890 and later).
const SPECIAL_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    // A public address at which a cloud answers for its machines alone.
    v4(168, 63, 129, 16, 32),
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
];

/// Of IPv6 only these are given out to anybody.
const GLOBAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// And of those, not these: protocols' own (Teredo among them), documentation, 6to4 relays.
const SPECIAL_V6: [Ipv6Net; 4] = [
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !SPECIAL_V4.iter().any(|network| network.contains(&v4)),
        IpAddr::V6(v6) => GLOBAL_V6.contains(&v6) && !SPECIAL_V6.iter().any(|network| network.contains(&v6)),
    }
}

/// How a name is looked up.
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of a host, of which the port is of no account.
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// As the system does.
pub(super) struct System;

impl Lookup for System {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) })
    }
}

/// A name has no address that may be reached.
#[derive(Debug, thiserror::Error)]
#[error("no address that may be reached")]
pub(super) struct NotReachable;

/// Looks names up, and gives only the addresses that may be reached. It is asked for every connection that is made.
pub(super) struct Checked {
    lookup: Arc<dyn Lookup>,
    allowed: Allowed,
}

impl Checked {
    pub(super) fn new(lookup: Arc<dyn Lookup>, allowed: Allowed) -> Checked {
        Checked { lookup, allowed }
    }
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.lookup(name.as_str().to_owned());
        let allowed = self.allowed.clone();
        Box::pin(async move {
            let mut addresses = found.await?;
            addresses.retain(|address| allowed.may_reach(address.ip()));
            match addresses.is_empty() {
                true => Err(NotReachable.into()),
                false => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(list: &[&str], address: &str) -> bool {
        let networks: Vec<Network> = list.iter().map(|network| network.parse().unwrap()).collect();
        Allowed::new(&networks).may_reach(address.parse().unwrap())
    }

    #[test]
    fn only_what_is_anybodys_is_reached() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(reached(&[], public), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "168.63.129.16",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.170",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2002:c0a8:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!reached(&[], special), "{special}");
        }
    }

    #[test]
    fn the_operator_may_list_more() {
        assert!(reached(&["127.0.0.0/8"], "127.0.0.1") && reached(&["127.0.0.1"], "::ffff:127.0.0.1"));
        assert!(!reached(&["127.0.0.1"], "127.0.0.2") && reached(&["::1"], "::1"));
        assert!("localhost".parse::<Network>().is_err() && "10.0.0.0/33".parse::<Network>().is_err());
    }
}
