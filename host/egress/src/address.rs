//! Classes of addresses, by the IANA registries of special-purpose addresses.
//!
//! Sources: the IANA [IPv4](https://www.iana.org/assignments/iana-ipv4-special-registry) and
//! [IPv6](https://www.iana.org/assignments/iana-ipv6-special-registry) special-purpose address registries, the
//! [multicast](https://www.iana.org/assignments/multicast-addresses) registry, and the documentation of the clouds for
//! their metadata services.
//!
//! Deny by default: of IPv6, only `2000::/3` is global, and a block that a registry lists as global inside one that is
//! not, such as `2001:20::/28`, has the class of the outer block. An address that contains another one (IPv4-mapped,
//! NAT64) has the class of the address inside, because that is where the packets go.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The purpose of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// Reachable from the whole internet.
    Global,
    /// This machine.
    Loopback,
    /// A private network: RFC 1918, unique local and the former site-local addresses.
    Private,
    /// The network of a provider behind carrier-grade NAT, `100.64.0.0/10`.
    Shared,
    /// The local link, without the metadata services.
    LinkLocal,
    /// A service that gives the credentials of a virtual machine or container to every caller.
    Metadata,
    /// Examples in documentation.
    Documentation,
    /// Measurements between network devices.
    Benchmarking,
    /// Tunnels and translators: 6to4, Teredo, local NAT64, IPv4-compatible and IPv4-translated addresses.
    Translation,
    /// Assigned to a protocol, reserved, or never assigned.
    Reserved,
    /// A group of machines.
    Multicast,
    /// All machines of the link.
    Broadcast,
    /// No address: systems connect it to this machine.
    Unspecified,
}

/// The rules that open a class of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressReach {
    /// Any rule.
    Public,
    /// A rule that is marked `private`, or names the address.
    Private,
    /// Only a rule that names the address.
    Literal,
    /// No rule.
    Never,
}

impl AddressClass {
    /// Returns the class of an address.
    pub fn from_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }

    pub(crate) fn reach(self) -> AddressReach {
        match self {
            Self::Global => AddressReach::Public,
            Self::Loopback | Self::Private | Self::Shared => AddressReach::Private,
            Self::LinkLocal
            | Self::Metadata
            | Self::Documentation
            | Self::Benchmarking
            | Self::Translation
            | Self::Reserved => AddressReach::Literal,
            Self::Multicast | Self::Broadcast | Self::Unspecified => AddressReach::Never,
        }
    }
}

/// Completes "is … address".
impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "a global",
            Self::Loopback => "a loopback",
            Self::Private => "a private",
            Self::Shared => "a carrier-grade NAT",
            Self::LinkLocal => "a link-local",
            Self::Metadata => "a metadata service's",
            Self::Documentation => "a documentation",
            Self::Benchmarking => "a benchmarking",
            Self::Translation => "a tunnel or translation",
            Self::Reserved => "a reserved",
            Self::Multicast => "a multicast",
            Self::Broadcast => "a broadcast",
            Self::Unspecified => "an unspecified",
        })
    }
}

/// The first block that contains an address decides.
const V4: &[([u8; 4], u32, AddressClass)] = &[
    // EC2, GCE, Azure, OpenStack, DigitalOcean; tasks of ECS and pods of EKS; Tencent; Alibaba; Azure's wire server.
    ([169, 254, 169, 254], 32, AddressClass::Metadata),
    ([169, 254, 170, 2], 32, AddressClass::Metadata),
    ([169, 254, 170, 23], 32, AddressClass::Metadata),
    ([169, 254, 0, 23], 32, AddressClass::Metadata),
    ([100, 100, 100, 200], 32, AddressClass::Metadata),
    ([168, 63, 129, 16], 32, AddressClass::Metadata),
    ([0, 0, 0, 0], 32, AddressClass::Unspecified),
    ([255, 255, 255, 255], 32, AddressClass::Broadcast),
    ([0, 0, 0, 0], 8, AddressClass::Reserved),
    ([10, 0, 0, 0], 8, AddressClass::Private),
    ([100, 64, 0, 0], 10, AddressClass::Shared),
    ([127, 0, 0, 0], 8, AddressClass::Loopback),
    ([169, 254, 0, 0], 16, AddressClass::LinkLocal),
    ([172, 16, 0, 0], 12, AddressClass::Private),
    ([192, 0, 0, 0], 24, AddressClass::Reserved),
    ([192, 0, 2, 0], 24, AddressClass::Documentation),
    ([192, 88, 99, 0], 24, AddressClass::Translation),
    ([192, 168, 0, 0], 16, AddressClass::Private),
    ([198, 18, 0, 0], 15, AddressClass::Benchmarking),
    ([198, 51, 100, 0], 24, AddressClass::Documentation),
    ([203, 0, 113, 0], 24, AddressClass::Documentation),
    ([224, 0, 0, 0], 4, AddressClass::Multicast),
    ([240, 0, 0, 0], 4, AddressClass::Reserved),
    ([0, 0, 0, 0], 0, AddressClass::Global),
];

const V6: &[([u16; 8], u32, AddressClass)] = &[
    // EC2; pods of EKS; GCE; OpenStack.
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, AddressClass::Metadata),
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, AddressClass::Metadata),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, AddressClass::Metadata),
    ([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, AddressClass::Metadata),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, AddressClass::Unspecified),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, AddressClass::Loopback),
    // IPv4-compatible (deprecated), IPv4-translated, and NAT64 of local use.
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, AddressClass::Translation),
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, AddressClass::Translation),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, AddressClass::Translation),
    // Teredo, then the other assignments to protocols.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, AddressClass::Translation),
    ([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, AddressClass::Benchmarking),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, AddressClass::Reserved),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, AddressClass::Documentation),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, AddressClass::Translation),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, AddressClass::Documentation),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, AddressClass::Global),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, AddressClass::Private),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, AddressClass::LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, AddressClass::Private),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, AddressClass::Multicast),
    // Everything else: discard-only `100::/64`, segment routing `5f00::/16`, and unassigned.
    ([0, 0, 0, 0, 0, 0, 0, 0], 0, AddressClass::Reserved),
];

fn of_v4(address: Ipv4Addr) -> AddressClass {
    let contains = |block: [u8; 4], length: u32| {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        Ipv4Addr::from(block).to_bits() & mask == address.to_bits() & mask
    };
    let found = V4.iter().find(|(block, length, _)| contains(*block, *length));
    found.map_or(AddressClass::Reserved, |(_, _, class)| *class)
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    if let Some(inner) = inner_v4(address) {
        return of_v4(inner);
    }
    let contains = |block: [u16; 8], length: u32| {
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        Ipv6Addr::from(block).to_bits() & mask == address.to_bits() & mask
    };
    let found = V6.iter().find(|(block, length, _)| contains(*block, *length));
    found.map_or(AddressClass::Reserved, |(_, _, class)| *class)
}

/// Returns the address inside an IPv4-mapped address (`::ffff:0:0/96`) or a well-known NAT64 address (`64:ff9b::/96`).
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(address: &str) -> AddressClass {
        AddressClass::from_address(address.parse().unwrap())
    }

    #[test]
    fn first_and_last_address_of_each_block_have_its_class() {
        for (class_of_block, addresses) in [
            (AddressClass::Unspecified, "0.0.0.0 :: ::ffff:0.0.0.0"),
            (AddressClass::Reserved, "0.0.0.1 0.255.255.255 192.0.0.0 192.0.0.255 240.0.0.0 255.255.255.254"),
            (AddressClass::Private, "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255"),
            (AddressClass::Private, "fc00:: fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fec0:: feff:ffff::"),
            (AddressClass::Shared, "100.64.0.0 100.127.255.255"),
            (AddressClass::Loopback, "127.0.0.0 127.255.255.255 ::1 ::ffff:127.0.0.1 64:ff9b::127.0.0.1"),
            (AddressClass::LinkLocal, "169.254.0.0 169.254.255.255 fe80:: febf:ffff::"),
            (AddressClass::Metadata, "169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 fd00:ec2::254"),
            (AddressClass::Metadata, "::ffff:169.254.169.254 64:ff9b::a9fe:a9fe fe80::a9fe:a9fe fd20:ce::254"),
            (AddressClass::Documentation, "192.0.2.0 192.0.2.255 198.51.100.0 203.0.113.255 2001:db8:: 3fff:fff::"),
            (AddressClass::Benchmarking, "198.18.0.0 198.19.255.255 2001:2::1"),
            (AddressClass::Translation, "192.88.99.1 2002:7f00:1:: 2001::1 ::127.0.0.1 ::ffff:0:7f00:1"),
            (AddressClass::Translation, "64:ff9b:1:: 64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
            (AddressClass::Reserved, "100::1 5f00::1 2001:1::1 2001:20::1 2001:1ff:: 4000:: 64:ff9b:2:: ::1:0:0:0"),
            (AddressClass::Multicast, "224.0.0.0 239.255.255.255 ff00:: ff02::1 ffff:ffff::"),
            (AddressClass::Broadcast, "255.255.255.255 ::ffff:255.255.255.255"),
            (AddressClass::Global, "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255"),
            (AddressClass::Global, "128.0.0.0 172.15.255.255 172.32.0.0 192.0.1.0 198.17.255.255 198.20.0.0"),
            (AddressClass::Global, "223.255.255.255 2000:: 2001:200:: 2606:4700::1111 3ffe:ffff:: 64:ff9b::1.1.1.1"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(class(address), class_of_block, "{address}");
            }
        }
    }

    #[test]
    fn metadata_and_groups_are_not_opened_by_private_rules() {
        assert_eq!(class("169.254.169.254").reach(), AddressReach::Literal);
        assert_eq!(class("ff02::1").reach(), AddressReach::Never);
        assert_eq!(class("0.0.0.0").reach(), AddressReach::Never);
    }

    proptest! {
        /// The standard library knows fewer special addresses; all that it knows are not public here.
        #[test]
        fn special_addresses_of_the_standard_library_are_never_public(bits in any::<u32>()) {
            let address = Ipv4Addr::from_bits(bits);
            let is_special = address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_broadcast() || address.is_documentation() || address.is_unspecified() || address.is_multicast();
            prop_assert!(!is_special || of_v4(address) != AddressClass::Global);
            prop_assert_eq!(of_v6(address.to_ipv6_mapped()), of_v4(address));
        }
    }
}
