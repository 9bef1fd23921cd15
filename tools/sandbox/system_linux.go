package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/tools/sandbox/internal/enter"
)

// systemDirs contain programs and libraries, and no data of users.
var systemDirs = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr", "/nix/store", "/run/current-system"}

// devices without effect on others.
var devices = []string{"/dev/null", "/dev/urandom", "/dev/zero"}

// etcFiles are what ordinary programs read in /etc. None contains a secret, such as the private
// keys of /etc/ssl/private and /etc/pki.
var etcFiles = []string{
	"alternatives", "bash.bashrc", "bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
	"fonts", "gai.conf", "gitconfig", "group", "host.conf", "hostname", "hosts", "inputrc", "java*", "ld.so.cache", "ld.so.conf",
	"ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "lsb-release", "magic", "magic.mime", "maven", "mime.types",
	"networks", "nsswitch.conf", "os-release", "passwd", "perl", "pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs",
	"pki/tls/openssl.cnf", "profile", "profile.d", "protocols", "python*",
	"resolv.conf", "rpc", "ruby*", "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// rules returns the Landlock rules of a command.
func rules(readable, writable []string, mounts bool) []enter.Rule {
	all := []enter.Rule{{Path: "/proc", Access: unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR}}
	if mounts { // all names in this root may be seen
		all = append(all, enter.Rule{Path: "/", Access: unix.LANDLOCK_ACCESS_FS_READ_DIR}, enter.Rule{Path: "/dev/shm", Access: enter.Write},
			enter.Rule{Path: "/tmp", Access: enter.Write})
	}
	for _, path := range devices {
		all = append(all, enter.Rule{Path: path, Access: enter.UseDevice})
	}
	for _, path := range etc() {
		all = append(all, rule(path, enter.Read))
	}
	for _, path := range readable {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			continue // /bin, a link to a directory in /usr
		}
		all = append(all, rule(path, enter.Read))
	}
	for _, path := range writable {
		all = append(all, rule(path, enter.Write))
	}
	return all
}

// rule allows access to a directory, or, as far as that is possible, to a file.
func rule(path string, access uint64) enter.Rule {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		access &= enter.OfFiles
	}
	return enter.Rule{Path: path, Access: access}
}

// etc returns the paths of etcFiles that exist, and the files elsewhere that they link to.
var etc = sync.OnceValue(func() []string {
	var all []string
	for _, pattern := range etcFiles {
		found, _ := filepath.Glob(filepath.Join("/etc", pattern))
		all = append(all, found...)
	}
	return append(all, linkedEtc()...)
})

// linkedEtc returns the files outside of /etc and the system that files in it link to,
// such as /run/systemd/resolve/stub-resolv.conf.
var linkedEtc = sync.OnceValue(func() []string {
	var all []string
	for _, name := range etcFiles {
		real, err := filepath.EvalSymlinks(filepath.Join("/etc", name))
		if err != nil || within(real, "/etc") || slices.ContainsFunc(systemDirs, func(dir string) bool { return within(real, dir) }) {
			continue
		}
		all = append(all, real)
	}
	return all
})

// ownPIDMax reports whether each PID namespace has its own pid_max (Linux 6.14). In an
// earlier kernel the setting is that of the host.
var ownPIDMax = sync.OnceValue(func() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(strings.TrimSpace(unix.ByteSliceToString(name.Release[:])), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 14)
})
