package simulate

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// powerFails says that the server loses what it did not sync each time it is killed: STEVEDORE_SIMULATE_POWER is set.
// The server then syncs each write, and only root on Linux can do that.
var powerFails = os.Getenv("STEVEDORE_SIMULATE_POWER") != ""

// powered is a file system whose power can fail: an ext4 on a loop device. What the kernel has not written to the file
// behind the device is lost. What is not synced, it writes only after some seconds.
type powered struct {
	t          testing.TB
	image, dir string
}

// newPowered makes an empty file system, or one from what an image holds.
func newPowered(t testing.TB, from string) *powered {
	t.Helper()
	p := &powered{t, filepath.Join(t.TempDir(), "disk.img"), t.TempDir()}
	if from != "" {
		p.command("cp", "--sparse=always", from, p.image)
	} else {
		p.command("truncate", "--size", "16G", p.image)
		p.command("mkfs.ext4", "-q", "-F", p.image)
	}
	p.command("mount", "-o", "loop,noatime,commit=3600", p.image, p.dir)
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", p.dir).Run() }) // it may have been unmounted
	return p
}

// end gives the device back.
func (p *powered) end() {
	p.command("umount", p.dir)
	if err := os.Remove(p.image); err != nil {
		p.t.Error(err)
	}
}

func (p *powered) command(name string, args ...string) {
	p.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		p.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// A power failure keeps what was synced, and nothing else.
func TestPowerFailure(t *testing.T) {
	if !powerFails {
		t.Skip(`"make power" runs this test`)
	}
	before := newPowered(t, "")
	for _, name := range []string{"synced", "lost"} {
		file, err := os.Create(filepath.Join(before.dir, name))
		if err == nil {
			_, err = file.WriteString(name)
		}
		if err == nil && name == "synced" {
			err = file.Sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	after := newPowered(t, before.image)
	if data, err := os.ReadFile(filepath.Join(after.dir, "synced")); err != nil || string(data) != "synced" {
		t.Errorf("what was synced is %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(after.dir, "lost")); !os.IsNotExist(err) {
		t.Errorf("what was not synced is there: %v", err)
	}
	before.end()
	after.end()
}
