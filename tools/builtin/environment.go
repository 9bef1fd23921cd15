package builtin

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// passedVariables are the variables of the worker that commands receive. Others may be secrets.
var passedVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ",
	"TMPDIR", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "USERPROFILE", "TEMP", "TMP", // Windows
}

// environment returns the environment of a command in dir.
func environment(dir string) []string {
	env := []string{"PWD=" + dir}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if runtime.GOOS == "windows" { // where "Path" is PATH
			name = strings.ToUpper(name)
		}
		if slices.Contains(passedVariables, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, kv)
		}
	}
	if _, ok := os.LookupEnv("PATH"); !ok {
		env = append(env, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	return env
}
