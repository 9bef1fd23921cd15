package serverconfig

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// Config describes the server.
type Config struct {
	Subjects bus.Subjects `json:"-"`
	Tenants  []Tenant
	// Listen is HOST:PORT. An address that other hosts can reach needs Cert and Key,
	// unless Insecure is set.
	Listen string
	// Cert and Key are the server's certificate, CA the authority of client certificates;
	// PEM files. With CA, clients need a certificate.
	Cert, Key, CA string
	Insecure      bool
	// Store is the directory of JetStream.
	Store string
}

// Tenant is one account and its clients.
type Tenant struct {
	Name string
	// Sessions, Queues and Bridges, which are channels, each get a client of their own.
	Sessions, Queues, Bridges []string
	// MaxBytes limits what the tenant stores; 0 means no limit.
	MaxBytes int64
}

// User is one login.
type User struct {
	// Name is <tenant>-<role>, or <tenant>-session-<session>, -queue-<queue> or -bridge-<channel>.
	Name string
	// Inbox is the prefix of inboxes (bus.Config.InboxPrefix); empty means the default.
	Inbox string

	publish, subscribe []string // empty means everything in its account
}

// Users returns all logins, in the order of the configuration.
func (c Config) Users() []User {
	var all []User
	for _, t := range c.Tenants {
		for _, a := range c.accounts(t) {
			all = append(all, a.users...)
		}
	}
	return append(all, User{Name: "system"})
}

// account is one account of the configuration.
type account struct {
	name, comment string
	users         []User
	stores        bool
	maxBytes      int64
	exports       []grant
	imports       []grant
}

// grant is a subject that a tenant lets another account use.
type grant struct {
	service       bool // otherwise a stream
	subject       string
	account, slow string // slow is the response threshold
	many          bool   // a request has several answers, such as a batch of messages
}

// accounts returns the account of a tenant and those of its clients.
func (c Config) accounts(t Tenant) []account {
	s := c.Subjects
	main := account{
		name: t.Name, comment: "Tenant " + t.Name + ": its streams, workers and operators.", stores: true, maxBytes: t.MaxBytes,
		users: []User{
			{Name: t.Name + "-operator"},
			c.worker(t.Name), c.console(t.Name),
		},
	}
	clients := []account{c.readOnly(t.Name)}
	for _, session := range t.Sessions {
		clients = append(clients, client(t.Name+"-session-"+session, "The client of the session "+session+" of "+t.Name+".", append([]grant{
			service(s.Prefix() + ".call.*.*." + session + ".*"), service(s.Prefix() + ".raw.*.*." + session + ".*"),
			slow(s.RPC("call", "*", "*", session, "*")), service(s.RPC("submit", "*", "*", session, "*")),
			service(s.RPC("artifact", session, "*")), service(s.RPC("task", session, "*")), service(s.RPC("cron", session, "*")),
			service(s.RPC("tools", "*")),
		}, c.results(session)...)))
	}
	for _, queue := range t.Queues {
		clients = append(clients, client(t.Name+"-queue-"+queue, "The client of the queue "+queue+" of "+t.Name+", for all sessions.", append([]grant{
			service(s.Prefix() + ".call." + queue + ".>"), service(s.Prefix() + ".raw." + queue + ".>"),
			slow(s.RPC("call", queue, ">")), service(s.RPC("submit", queue, ">")),
			service(s.RPC("artifact", "*", "*")), service(s.RPC("task", "*", "*")), service(s.RPC("tools", "*")),
		}, c.results("*")...)))
	}
	for _, channel := range t.Bridges {
		clients = append(clients, c.bridge(t.Name, channel))
	}
	for _, a := range clients {
		for _, g := range a.imports {
			export := g
			export.account = a.name
			main.exports = append(main.exports, export)
		}
	}
	return append([]account{main}, clients...)
}

func (c Config) results(session string) []grant {
	s := c.Subjects
	var all []grant
	for _, kind := range []string{"result", "completion", "progress", "stored.result", "stored.completion"} {
		all = append(all, grant{subject: s.Prefix() + "." + kind + "." + session + ".*"})
	}
	return all
}

// bridge takes the notifications of one channel from its durable consumer, and hands in what the
// channel's users write.
func (c Config) bridge(tenant, channel string) account {
	s := c.Subjects
	consumer := s.StreamName(bus.Outbox) + "." + s.ChannelConsumer(channel).Name
	next := service("$JS.API.CONSUMER.MSG.NEXT." + consumer)
	next.many = true
	return client(tenant+"-bridge-"+channel, "The bridge of the channel "+channel+" of "+tenant+".", []grant{
		service("$JS.API.INFO"), // otherwise the server answers requests to JetStream itself, too
		next, service("$JS.API.CONSUMER.INFO." + consumer), service("$JS.ACK." + consumer + ".>"),
		service(s.RPC("message", channel)), {subject: s.Draft(channel)},
	})
}

func service(subject string) grant { return grant{service: true, subject: subject} }

// slow is a service whose answer may take as long as a call.
func slow(subject string) grant { return grant{service: true, subject: subject, slow: "1h"} }

// client returns an account that can use only what it imports.
func client(name, comment string, imports []grant) account {
	u := User{Name: name, subscribe: []string{"_INBOX.>"}}
	for _, g := range imports {
		if g.service {
			u.publish = append(u.publish, g.subject)
		} else {
			u.subscribe = append(u.subscribe, g.subject)
		}
	}
	return account{name: name, comment: comment, users: []User{u}, imports: imports}
}

// readOnly looks at everything in the tenant and changes nothing. It has an account of
// its own, because it could otherwise have the server publish a stored message as a
// result: as the reply of a read.
func (c Config) readOnly(tenant string) account {
	s := c.Subjects
	var imports []grant
	for _, api := range readAPI {
		g := service(api)
		g.many = strings.Contains(api, ".DIRECT.GET.")
		imports = append(imports, g)
	}
	for _, op := range rpc.Operations() {
		if op.Subject != "" && !op.Changes {
			imports = append(imports, service(s.RPC(strings.Replace(op.Subject, "SESSION", "*", 1))))
		}
	}
	// All workers answer these.
	for _, subject := range []string{s.RPC("running", ">"), "$SRV.STATS.*"} {
		g := service(subject)
		g.many = true
		imports = append(imports, g)
	}
	imports = append(imports, c.results("*")...)
	tasks := "$KV." + s.BucketName(bus.TasksBucket)
	for _, subject := range []string{s.Prefix() + ".session.*", s.Prefix() + ".dead.*.*", tasks + ".call.>"} {
		imports = append(imports, grant{subject: subject})
	}
	return client(tenant+"-readonly", "Reads everything of "+tenant+" and changes nothing.", imports)
}

// worker runs calls. It cannot change or delete streams, and creates only those that are created
// at their first use.
func (c Config) worker(tenant string) User {
	s := c.Subjects
	u := User{Name: tenant + "-worker", Inbox: "_INBOX_worker"}
	u.publish = append([]string{s.Prefix() + ".>", "_INBOX.>", "_INBOX_worker.>", "_INBOX_console.>", "_R_.>", "$JS.ACK.>",
		"$JS.FC.>", "$JS._TC.>", "$SRV.>"}, readAPI...)
	u.publish = append(u.publish, "$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DURABLE.CREATE.>", "$JS.API.CONSUMER.DELETE.*.*", "$JS.API.CONSUMER.MSG.NEXT.*.*")
	for _, name := range s.OnDemand() {
		u.publish = append(u.publish, "$JS.API.STREAM.CREATE."+name)
	}
	for _, stream := range []string{bus.Calls, bus.Results, bus.Ticks, bus.Outbox, bus.Sessions, bus.Dead} {
		u.publish = append(u.publish, "$JS.API.STREAM.PURGE."+s.StreamName(stream), "$JS.API.STREAM.MSG.DELETE."+s.StreamName(stream))
	}
	for _, bucket := range []string{bus.StateBucket, bus.ArtifactsBucket, bus.TasksBucket} {
		name := s.BucketName(bucket)
		u.publish = append(u.publish, "$KV."+name+".>", "$JS.API.STREAM.PURGE.KV_"+name, "$JS.API.STREAM.MSG.DELETE.KV_"+name)
	}
	blobs := s.BucketName(bus.BlobsBucket)
	u.publish = append(u.publish, "$O."+blobs+".>", "$JS.API.STREAM.PURGE.OBJ_"+blobs, "$JS.API.STREAM.MSG.DELETE.OBJ_"+blobs)
	u.subscribe = []string{u.Inbox + ".>", s.Prefix() + ".>", "$SRV.>"}
	return u
}

// console serves the page: it looks at everything, and cancels, answers, retries and
// removes what the page offers. It creates no consumers: the server publishes to any deliver
// subject of theirs.
func (c Config) console(tenant string) User {
	s := c.Subjects
	u := User{Name: tenant + "-console", Inbox: "_INBOX_console"}
	u.publish = append([]string{
		s.RPC(">"), s.Prefix() + ".call.>", s.Prefix() + ".cancel.>", s.Prefix() + ".notify.>", "$SRV.>",
		"$JS.API.STREAM.MSG.DELETE." + s.StreamName(bus.Dead), "$JS.API.STREAM.MSG.DELETE." + s.StreamName(bus.Calls),
		"$JS.API.STREAM.PURGE." + s.StreamName(bus.Dead), "$JS.API.STREAM.PURGE." + s.StreamName(bus.Sessions), "$KV." + s.BucketName(bus.TasksBucket) + ".>",
	}, readAPI...)
	u.subscribe = []string{u.Inbox + ".>", s.Prefix() + ".>", "$KV." + s.BucketName(bus.TasksBucket) + ".call.>"}
	return u
}

// readAPI are the requests to JetStream that change nothing.
var readAPI = []string{
	"$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.MSG.GET.*",
	"$JS.API.DIRECT.GET.>", "$JS.API.CONSUMER.INFO.*.*", "$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.NAMES.*",
}

// Check returns an error if the configuration would be unsafe or not valid.
func (c Config) Check() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen address %q: want HOST:PORT", c.Listen)
	}
	addr, err := netip.ParseAddr(host)
	loopback := host == "localhost" || err == nil && addr.IsLoopback()
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return fmt.Errorf("a certificate and its key belong together")
	case c.CA != "" && c.Cert == "":
		return fmt.Errorf("client certificates need a certificate of the server")
	case !loopback && c.Cert == "" && !c.Insecure:
		return fmt.Errorf("other hosts can reach %s, so the server needs a certificate and a key", c.Listen)
	case len(c.Tenants) == 0:
		return fmt.Errorf("there is no tenant")
	}
	seen, logins := map[string]bool{"SYS": true}, map[string]bool{}
	for _, t := range c.Tenants {
		if !tools.IsToken(t.Name) { // "serve --tenants" wants this, and workspaces have the name
			return fmt.Errorf("the name %.100q of a tenant must be of the form %s", t.Name, tools.TokenForm)
		}
		for _, name := range slices.Concat(t.Sessions, t.Queues, t.Bridges) {
			if err := bus.CheckSubject(name); err != nil || strings.Contains(name, ".") {
				return fmt.Errorf("the name %q must be of the form [A-Za-z0-9_-]", name)
			}
		}
		for _, a := range c.accounts(t) {
			if seen[a.name] {
				return fmt.Errorf("the account %q occurs twice", a.name)
			}
			seen[a.name] = true
			for _, u := range a.users { // its key is in a file with its name
				if logins[u.Name] {
					return fmt.Errorf("two logins would have the name %q; rename the tenant or the session", u.Name)
				}
				logins[u.Name] = true
			}
		}
	}
	return nil
}
