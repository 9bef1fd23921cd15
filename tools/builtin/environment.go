package builtin

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// passed are the variables that every command gets, if the worker has them. A
// name belongs here only if its value is never a secret.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ",
	"TMPDIR", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "USERPROFILE", "TEMP", "TMP", // Windows
}

// environment is what a command in dir sees of the worker's environment.
func environment(more []string, dir string) []string {
	env := []string{"PWD=" + dir}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if runtime.GOOS == "windows" { // where "Path" is PATH
			name = strings.ToUpper(name)
		}
		if slices.Contains(passed, name) || strings.HasPrefix(name, "LC_") || slices.Contains(more, name) {
			env = append(env, kv)
		}
	}
	if _, ok := os.LookupEnv("PATH"); !ok {
		env = append(env, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	return env
}
