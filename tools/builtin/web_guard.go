package builtin

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
	"golang.org/x/net/idna"
)

// maxURL is the longest accepted URL, in bytes.
const maxURL = 8 << 10

// parseURL parses a URL of a model, refuses what checkURL refuses, and converts the
// host to ASCII. Errors do not contain the URL, which may contain a password.
func parseURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the URL has %d bytes; at most %d are accepted", len(raw), maxURL)
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the URL is malformed; want for example https://example.com/page")
	}
	return u, checkURL(u)
}

// checkURL refuses URLs regardless of the address of their host. It also checks
// redirects.
func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return tools.Errorf(tools.CodeInvalidArguments, "the URL's scheme is %q; only http and https are allowed", tools.Excerpt(u.Scheme, 40))
	}
	if u.User != nil {
		return tools.Errorf(tools.CodeInvalidArguments, "the URL contains a user name or password, which web_fetch does not send")
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return err
	}
	if port := u.Port(); port != "" {
		u.Host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	} else {
		u.Host = host
	}
	return nil
}

// asciiHost returns the host name to resolve. It replaces full-width and other digits
// by ASCII ones, so that the shown name is the one that is dialled.
func asciiHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", tools.Errorf(tools.CodeInvalidArguments, "the URL's address has a zone, so it is not on the public internet")
		}
		return addr.String(), nil
	}
	ascii, err := idna.Lookup.ToASCII(host)
	again, errAgain := idna.Lookup.ToASCII(ascii)
	if err != nil || errAgain != nil || again != ascii || ascii == "" || len(ascii) > 253 || !utf8.ValidString(host) {
		return "", tools.Errorf(tools.CodeInvalidArguments, "the URL's host %q is not a host name", tools.Excerpt(host, 80))
	}
	return ascii, nil
}

// special lists the networks that are not the public internet: the IANA
// special-purpose registries for IPv4 and IPv6, multicast, and formerly reserved
// networks. The predicates of netip know only some of them. isPublic also refuses all
// IPv6 outside 2000::/3 and the NAT64 prefix.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),         // this network
	netip.MustParsePrefix("10.0.0.0/8"),        // private
	netip.MustParsePrefix("100.64.0.0/10"),     // carrier NAT; metadata services of some clouds
	netip.MustParsePrefix("127.0.0.0/8"),       // loopback
	netip.MustParsePrefix("168.63.129.16/32"),  // Azure's metadata service, on a public address
	netip.MustParsePrefix("169.254.0.0/16"),    // link-local; metadata services
	netip.MustParsePrefix("172.16.0.0/12"),     // private
	netip.MustParsePrefix("192.0.0.0/24"),      // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),      // documentation
	netip.MustParsePrefix("192.31.196.0/24"),   // AS112
	netip.MustParsePrefix("192.52.193.0/24"),   // AMT
	netip.MustParsePrefix("192.88.99.0/24"),    // 6to4 relays, deprecated
	netip.MustParsePrefix("192.168.0.0/16"),    // private
	netip.MustParsePrefix("192.175.48.0/24"),   // AS112
	netip.MustParsePrefix("198.18.0.0/15"),     // benchmarking
	netip.MustParsePrefix("198.51.100.0/24"),   // documentation
	netip.MustParsePrefix("203.0.113.0/24"),    // documentation
	netip.MustParsePrefix("224.0.0.0/4"),       // multicast
	netip.MustParsePrefix("240.0.0.0/4"),       // reserved, and broadcast
	netip.MustParsePrefix("2001::/23"),         // protocol assignments, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

var (
	globalIPv6 = netip.MustParsePrefix("2000::/3")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
)

// isPublic reports whether addr is an ordinary address of the internet.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	if nat64.Contains(addr) { // an IPv4 address for networks without IPv4
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if b := addr.As16(); addr.Is6() && (!globalIPv6.Contains(addr) || b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe) {
		return false // ISATAP sends to the IPv4 address at the end
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// guard refuses to dial addresses that are neither public nor allowed. It checks the
// resolved address immediately before the dial, so a name cannot resolve to another
// address after the check.
func guard(allow []netip.Prefix) func(ctx context.Context, network, address string, _ syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return tools.Errorf(tools.CodeInvalidArguments, "the address %q is not allowed", tools.Excerpt(address, 80))
		}
		addr := ap.Addr()
		allowed := slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
		if !allowed && !isPublic(addr) {
			return tools.Errorf(tools.CodeInvalidArguments, "the host's address %s is not on the public internet, and web_fetch does not connect to it", addr)
		}
		return nil
	}
}
