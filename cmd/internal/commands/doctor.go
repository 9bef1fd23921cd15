package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools/limited"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

const doctorHelp = `Examine this host and the bus with the settings of a worker, and say what to do about
each problem: the settings, the model's key, the sandbox of shell, the disk, the connection,
the permissions, the streams, the clock, what "stevedore status" says needs attention, and what
an upgrade leaves: processes of another version, streams with other settings than this version
wants, and hosts whose wrapped MCP servers or adapters call a program that is gone or outdated.
Give doctor the flags, settings file and environment of the worker. It changes nothing.

The exit code is 1 if a check fails.`

// finding is the outcome of one check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning or failed
	Text   string `json:"text"`
	// Fix says what to do; "" if the status is ok.
	Fix string `json:"fix,omitempty"`
}

// doctor collects the findings.
type doctor struct {
	process.Options
	findings []finding
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Status: "ok", Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, fix, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "warning", fmt.Sprintf(format, args...), fix})
}

func (d *doctor) fail(check, fix, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "failed", fmt.Sprintf(format, args...), fix})
}

func newDoctorCommand() *cobra.Command {
	var (
		d      doctor
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this host, the settings and the bus, and say what to do about problems",
		Long:  doctorHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.examine(cmd.Context(), cmd.ErrOrStderr())
			return d.print(cmd.OutOrStdout(), asJSON)
		},
	}
	d.Heartbeat = new(cli.Heartbeat)
	d.AddFlags(cmd.Flags())
	d.Heartbeat.AddFlags(cmd.Flags(), cli.TopicHeartbeat)
	cli.CommonFlags(cmd, "server", "context", "creds", "data", "workspace", "model", "health", "json")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per check")
	return cmd
}

func (d *doctor) print(out io.Writer, asJSON bool) error {
	failed := 0
	for _, f := range d.findings {
		if f.Status == "failed" {
			failed++
		}
		if asJSON {
			if err := cli.JSON(out, f); err != nil {
				return err
			}
			continue
		}
		_ = cli.Line(out, "%-8s %-12s %s", f.Status, f.Check, f.Text)
		if f.Fix != "" {
			_ = cli.Line(out, "%-8s %-12s -> %s", "", "", f.Fix)
		}
	}
	if failed > 0 {
		return cli.Exit(cli.ExitFailed, "failed checks: %d", failed)
	}
	return nil
}

func (d *doctor) examine(ctx context.Context, stderr io.Writer) {
	if err := d.Check(); err != nil {
		d.fail("settings", "correct the flag, the setting or the variable", "%v", err)
	} else {
		d.ok("settings", "flags, settings file and environment are valid; models: %s", dash(strings.Join(d.Agents.Models, ", ")))
	}
	if err := limited.CheckOpenFiles(); err != nil {
		d.warn("limits", cli.OpenFilesAdvice, "%v", err)
	}
	d.examineSandbox()
	d.examineHosts()
	d.examineDisk()
	log, err := d.Logging.Logger(stderr)
	if err != nil {
		return // Check reports it
	}
	if !d.Connection.External() && !d.Connection.HadServer() {
		d.ok("bus", "no server has run in %s, and \"mcp wrap\" and \"hook\" need none; \"%s\" starts one%s", d.Connection.Data,
			d.Connection.Command("up"), cli.ServiceHint())
		return
	}
	d.Connection.Config = d.BusConfig(log)
	d.Connection.AnyFormat = true // the check names the steps
	b, err := d.Connection.Connect(ctx, "stevedore doctor", log)
	if err != nil {
		fix := cmp.Or(d.Connection.Advice(err), "correct --server, --context, --data, the credential or the files of --tlsca, --tlscert and --tlskey")
		d.fail("bus", fix, "%v", err)
		return
	}
	defer b.Close()
	d.examineBus(ctx, b)
}

func (d *doctor) examineSandbox() {
	if _, err := os.Stat(d.Workspace); err != nil {
		return // the check of the workspace says it
	}
	p, refused, err := d.Shell.Examine(d.Workspace, d.Connection.Data)
	missing, network := strings.Join(p.Missing, "; "), "without network"
	if d.Shell.Network || d.Shell.Off() {
		network = "with the network of the host"
	}
	switch {
	case err != nil:
		d.fail("sandbox", cmp.Or(d.Connection.Advice(err), "correct --workspace and the --shell flags"), "%v", err)
	case refused != nil:
		d.warn("sandbox", missing, "shell refuses all commands, because the system cannot confine them (it has: %s)", p)
	case d.Shell.Off():
		d.warn("sandbox", "remove --shell-sandbox off", "shell runs commands without a sandbox")
	case len(p.Missing) > 0:
		d.warn("sandbox", missing, "shell runs commands %s in: %s", network, p)
	default:
		d.ok("sandbox", "shell runs commands %s in: %s", network, p)
	}
}

// examineDisk writes to the directories, because permissions and quotas have no other
// reliable test.
func (d *doctor) examineDisk() {
	for _, place := range [][2]string{{"workspace", d.Workspace}, {"data", d.Connection.Data}} {
		name, dir := place[0], place[1]
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && name == "data" {
			continue // no embedded server was started here
		}
		f, err := os.CreateTemp(dir, ".stevedore-doctor-*")
		if err == nil {
			_, err = f.Write(make([]byte, 1<<20))
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
		var other *durable.FormatError
		if err == nil && name == "data" {
			_, err = process.CheckData(dir)
		}
		switch {
		case errors.As(err, &other):
			d.fail(name, other.Advice, "%s %s", dir, other.Problem)
		case errors.Is(err, fs.ErrNotExist):
			d.fail(name, "mkdir -p "+cli.ShellWord(dir), "%s does not exist", dir)
		case durable.WriteAdvice(err) != "":
			d.fail(name, durable.WriteAdvice(err)+" with --"+name, "%v", err)
		case errors.Is(err, fs.ErrPermission):
			fix := fmt.Sprintf("let the user of the worker write there: sudo chown %s %[2]s && sudo chmod u+rwx %[2]s", userName(), cli.ShellWord(dir))
			if _, err := os.ReadDir(dir); err != nil && cli.Owner(dir) != userName() {
				fix = fmt.Sprintf("run this as the user that may read it (sudo -u %s), or choose another directory with --%s", cli.Owner(dir), name)
			}
			d.fail(name, fix, "%v", err)
		case err != nil:
			d.fail(name, "free disk space, or choose another directory with --"+name, "%v", err)
		default:
			d.ok(name, "%s is writable", dir)
		}
	}
}

// userName returns the name of the user of this process, or its number.
func userName() string {
	if u, err := user.Current(); err == nil {
		return cli.ShellWord(u.Username)
	}
	return strconv.Itoa(os.Getuid())
}

func (d *doctor) examineBus(ctx context.Context, b *bus.Bus) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s := client.ReadStatus(ctx, b, &d.Connection)
	d.ok("bus", "connected to %s, nats-server %s, in %.1f ms", s.Server.URL, s.Server.Version, s.Server.RTTms)

	// A server does not answer what the user may not ask, so the checks that need no answer are short.
	short, end := context.WithTimeout(ctx, 3*time.Second)
	defer end()
	if _, err := b.Formats(short); err != nil {
		if other, ok := errors.AsType[*jsapi.FormatError](err); ok {
			d.fail("formats", d.Connection.Advice(other), "%v", other)
			return // the other checks would misread what another version stored
		}
	}
	d.examinePermissions(ctx, b, s)
	if len(s.Streams) > 0 && !slices.ContainsFunc(s.Problems, func(p status.Problem) bool { return p.Code == status.ClockSkew }) {
		d.ok("clock", "the clocks of server and host agree")
	}
	for _, e := range s.Errors {
		fix := cli.LeaderAdvice
		if strings.Contains(e, nats.ErrPermissionViolation.Error()) {
			fix = "give this user the permission, see docs/security.md"
		}
		d.fail("status", fix, "could not read the %s", e)
	}
	for _, p := range s.Problems {
		d.report(p)
	}
	d.examineSettings(ctx, b, s)
	d.examineVersions(s)
	switch n := len(s.Workers); n {
	case 0: // the status says it
	case 1:
		d.ok("workers", "1 worker answers")
	default:
		d.ok("workers", "%d workers answer", n)
	}
	d.examineReplicas(s)
}

// report adds a problem of the status. What keeps a worker from its work has failed, as for /readyz.
func (d *doctor) report(p status.Problem) {
	switch {
	case p.Code == status.ClockSkew:
		d.fail("clock", p.Advice, "%s", p.Text)
	case slices.Contains([]string{status.StreamMissing, status.StreamAltered, status.StreamSealed, status.StreamWithoutLeader,
		status.ClusterWithoutLeader, status.WritesRefused}, p.Code):
		d.fail("streams", p.Advice, "%s", p.Text)
	case process.Stops(trouble.Kind(p.Code), p.Name):
		d.fail("workers", p.Advice, "%s", p.Text)
	default:
		d.warn("status", p.Advice, "%s", p.Text)
	}
}

// examineVersions warns of workers that an upgrade left out.
func (d *doctor) examineVersions(s status.Status) {
	versions := map[string][]string{cli.ReadVersion().Version: {"this program"}}
	for _, w := range s.Workers {
		versions[w.Version] = append(versions[w.Version], w.Name)
	}
	if len(versions) > 1 {
		d.warn("versions", "replace one process after the other, see docs/operate.md", "this program and the workers have different versions: %v", versions)
	}
}

// examineSettings compares the streams with what this version wants. Provision would create one that
// is missing, so it is not called if the status says that, or could not find out. The remedy for altered
// streams changes other settings, too.
func (d *doctor) examineSettings(ctx context.Context, b *bus.Bus, s status.Status) {
	if len(s.Errors) > 0 || slices.ContainsFunc(s.Problems, func(p status.Problem) bool {
		return p.Code == status.StreamMissing || p.Code == status.StreamAltered || isLeaderless(p)
	}) {
		return
	}
	got, _ := admin.Provision(ctx, b, admin.Nothing) // what it could not read is reported above
	for _, difference := range got.Differences {
		d.warn("streams", "run "+d.Connection.Command("provision", "--update"), "%s", difference)
	}
}

// examineHosts finds hosts that call a program that was moved or replaced.
func (d *doctor) examineHosts() {
	machine, err := thisMachine()
	if err != nil {
		return // without a home there are no hosts
	}
	for _, s := range hostServers(machine) {
		if s.Fix != "" {
			d.fail("hosts", s.Fix, "%s: %s in %s is %s", s.Host, s.Server, s.File, cmp.Or(s.Reason, s.State))
		}
	}
}

// examineReplicas warns of streams that are lost with one server of a cluster.
func (d *doctor) examineReplicas(s status.Status) {
	var single []string
	for _, stream := range s.Streams {
		if stream.Leader != "" && stream.Replicas == 1 { // a server without a cluster names no leader
			single = append(single, stream.Name)
		}
	}
	if len(single) > 0 {
		d.warn("replicas", "run "+d.Connection.Command("provision", "--replicas", "3", "--update"), "in a cluster, these streams are on one server only: %s", strings.Join(single, ", "))
	}
}

// examinePermissions looks at the consumers that a worker uses: a user who may not read
// them cannot create them or pull from them.
func (d *doctor) examinePermissions(ctx context.Context, b *bus.Bus, s status.Status) {
	for _, queue := range d.Queues() {
		subject := "$JS.API.CONSUMER.INFO." + b.StreamName(bus.Calls) + "." + b.WorkerConsumer(queue).Name
		err := b.WatchDenial(ctx, subject, func(ctx context.Context) error {
			_, _, err := b.ConsumerInfo(ctx, b.WorkerConsumer(queue))
			return err
		})
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound): // the status says it
		case err != nil && !errors.Is(err, nats.ErrPermissionViolation) && slices.ContainsFunc(s.Problems, isLeaderless):
		case err != nil:
			d.fail("permissions", "give this user the permissions of a worker: stevedore provision --server-config writes them", "%v", err)
		default:
			d.ok("permissions", "the user may look at the consumer of queue %q", queue)
		}
	}
}

// isLeaderless reports whether a problem explains why lookups fail.
func isLeaderless(p status.Problem) bool {
	return p.Code == status.ClusterWithoutLeader || p.Code == status.StreamWithoutLeader
}
