package bus

import (
	"context"
	"strings"
	"testing"
)

func TestRedactURLs(t *testing.T) {
	for in, want := range map[string]string{
		"nats://127.0.0.1:4222":                       "nats://127.0.0.1:4222",
		"nats://user:secret@host:4222":                "nats://xxxxx@host:4222",
		"user:secret@host:4222":                       "nats://xxxxx@host:4222",
		"nats://secret@host":                          "nats://xxxxx@host",
		"tls://a:secret@h1:1, nats://b:secret@h2:2":   "tls://xxxxx@h1:1,nats://xxxxx@h2:2",
		"nats://user:sec/ret@host:4222":               "(an unreadable URL)",
		"nats://user:12/secret@host:4222":             "(an unreadable URL)",
		"nats://user:sec%zzret@host:4222":             "(an unreadable URL)",
		"nats://user:1?secret@host:4222":              "(an unreadable URL)",
		"nats://user:1#secret@host:4222":              "(an unreadable URL)",
		"localhost":                                   "nats://localhost",
		"ws://user:secret@host:80/path?token=secret2": "ws://xxxxx@host:80",
	} {
		if got := RedactURLs(in); got != want {
			t.Errorf("RedactURLs(%q) = %q, want %q", in, got, want)
		}
	}
}

// No connect error contains the password, whatever is wrong with the URL.
func TestConnectErrorsHideThePassword(t *testing.T) {
	for _, url := range []string{
		"nats://user:s3cr3t@127.0.0.1:1",
		"user:s3cr3t@127.0.0.1:1",
		"nats://user:s3cr3t/@127.0.0.1:1",
		"nats://user:s3cr3t%zz@127.0.0.1:1",
		"nats://user:s3cr3t@127.0.0.1:port",
		"nats://user:s3cr3t@127.0.0.1:1,nats://user:s3cr3t^@[::1",
	} {
		_, err := Connect(context.Background(), Config{Server: url})
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
