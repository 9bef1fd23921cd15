package embedded

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// certificate is a certificate and a key in files. It is read again if a file has changed,
// so replacing the files needs no restart.
type certificate struct {
	certFile, keyFile string

	mu       sync.Mutex
	loaded   *tls.Certificate
	modified [2]time.Time
}

// tlsConfig returns the configuration of the server, or nil without a certificate.
func (c Config) tlsConfig() (*tls.Config, error) {
	if c.Cert == "" && c.Key == "" {
		return nil, nil
	}
	cert := &certificate{certFile: c.Cert, keyFile: c.Key}
	if _, err := cert.get(nil); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.get}, nil
}

// get returns the certificate in the files. If they are not valid, as in the middle of a
// replacement, it returns the last one.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var modified [2]time.Time
	for i, name := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			modified[i] = info.ModTime()
		}
	}
	if c.loaded != nil && modified == c.modified {
		return c.loaded, nil
	}
	loaded, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	switch {
	case err == nil:
		c.loaded, c.modified = &loaded, modified
	case c.loaded == nil:
		return nil, fmt.Errorf("certificate of the server: %w", err)
	}
	return c.loaded, nil
}

// certifiedHost returns an address that the certificate is valid for: the given one, otherwise one
// with the first name in the certificate. A name with a wildcard is no address.
func certifiedHost(cfg *tls.Config, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	cert, err := cfg.GetCertificate(nil)
	if err != nil || len(cert.Certificate) == 0 {
		return address
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil || leaf.VerifyHostname(host) == nil {
		return address
	}
	i := slices.IndexFunc(leaf.DNSNames, func(name string) bool { return !strings.Contains(name, "*") })
	if i < 0 {
		return address
	}
	return net.JoinHostPort(leaf.DNSNames[i], port)
}
