package embedded

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// Other processes connect to an address that the certificate is valid for, if it names one.
func TestCertifiedHost(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		names []string
		ips   []net.IP
		want  string
	}{
		{[]string{"a.example.com", "b.example.com"}, nil, "a.example.com:4222"},
		{[]string{"a.example.com"}, []net.IP{net.IPv4(127, 0, 0, 1)}, "127.0.0.1:4222"},
		{[]string{"*.example.com", "bus.example.com"}, nil, "bus.example.com:4222"},
		{[]string{"*.example.com"}, nil, "127.0.0.1:4222"},
		{nil, nil, "127.0.0.1:4222"},
	} {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: test.names, IPAddresses: test.ips}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cfg := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{der}}, nil
		}}
		if got := certifiedHost(cfg, "127.0.0.1:4222"); got != test.want {
			t.Errorf("%v %v: %s, want %s", test.names, test.ips, got, test.want)
		}
	}
}
