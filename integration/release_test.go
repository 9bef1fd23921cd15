package integration

import (
	"archive/tar"
	wheels "archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// release runs the script of a release in a clone of a small repository.
func release(t *testing.T, dir, version string) string {
	t.Helper()
	script, err := filepath.Abs("deploy/release/release.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", script, version)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("release %s succeeded", version)
	}
	return string(out)
}

// A release fails if its version, the tag and the changelog differ.
func TestReleaseChecksItsVersion(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the script needs bash")
	}
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.org"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	changelog := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	changelog("# Changelog\n\n## Unreleased\n")
	git("add", ".")
	git("commit", "-qm", "first")
	for _, step := range []struct {
		do      func()
		version string
		want    string
	}{
		{func() {}, "1.0", "1.0 is no version such as v1.2.3"},
		{func() {}, "v1.0.0-rc.1", "v1.0.0-rc.1 is no version such as v1.2.3"}, // no valid name of a wheel
		{func() {}, "v0.1.0", "the commit has no tag v0.1.0; make it with: git tag v0.1.0"},
		{func() { git("tag", "v0.1.0") }, "v0.1.0", "the first section of CHANGELOG.md is not '## v0.1.0'"},
		{func() { changelog("# Changelog\n\n## v0.1.0 (2026-12-01)\n") }, "v0.1.0", "has no paragraph **Upgrade**"},
		{func() { changelog("# Changelog\n\n## v0.1.0 (2026-12-01)\n\n**Upgrade**\n") }, "v0.1.0", "files were changed since the commit"},
	} {
		step.do()
		out := release(t, dir, step.version)
		if !strings.Contains(out, step.want) {
			t.Errorf("release %s printed %q, want %q", step.version, out, step.want)
		}
		if strings.Contains(out, "has no tag") && strings.Count(out, "release.sh: ") < 3 {
			t.Errorf("not all demands at once: %s", out)
		}
	}
}

// An archive has the files that its pages link to.
func TestArchivesHaveWhatTheirPagesName(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("deploy/release/release.sh")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`git archive HEAD (.*) \|`).FindSubmatch(script)
	if list == nil {
		t.Fatal("release.sh archives no files")
	}
	paths := strings.Fields(string(list[1]))
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(docs, "../README.md", "../CHANGELOG.md", "../SECURITY.md", "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range relativeLink.FindAllStringSubmatch(string(text), -1) {
			target, err := filepath.Rel("..", filepath.Join(filepath.Dir(page), link[1]))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(paths, func(path string) bool { return target == path || strings.HasPrefix(target, path+"/") }) && link[1] != "" {
				t.Errorf("%s links to %s, which is in no archive: %v", page, link[1], paths)
			}
		}
	}
}

// builtPackages makes the packages of a release whose programs are shell scripts, and returns
// their folder.
func builtPackages(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the program of the test is a shell script")
	}
	built := filepath.Join(t.TempDir(), "stevedore_0.1.0_linux_"+runtime.GOARCH)
	if err := os.Mkdir(built, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stevedore", "stevedore-heartbeat"} {
		if err := os.WriteFile(filepath.Join(built, name), []byte("#!/bin/sh\necho \"got $*\"\nexit 7\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	build := exec.Command("go", "run", "./integration/deploy/release/packages", "v0.1.0", out, built)
	build.Dir = ".."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// onlyFile returns the one file that a pattern matches.
func onlyFile(t *testing.T, pattern ...string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(all) != 1 {
		t.Fatalf("%v: %v, %v", pattern, all, err)
	}
	return all[0]
}

// install runs an installer with a home of its own.
func install(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, text)
	}
}

// passesOn fails unless a program of builtPackages gets its arguments, and its exit code arrives.
func passesOn(t *testing.T, program string) {
	t.Helper()
	cmd := exec.Command(program, "run", "-c", "two words")
	text, err := cmd.CombinedOutput()
	if string(text) != "got run -c two words\n" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%s printed %q and ended with %v", program, text, err)
	}
}

// The packages for npm and Python contain the programs, and a program starts through them with
// its arguments and exit code.
func TestPackagesOfARelease(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	out := builtPackages(t)
	t.Run("wheel", func(t *testing.T) { testWheel(t, onlyFile(t, out, "python", "*.whl")) })
	t.Run("pip", func(t *testing.T) { testPip(t, onlyFile(t, out, "python", "*.whl")) })
	t.Run("platform", func(t *testing.T) {
		files := npmFiles(t, onlyFile(t, out, "npm", "stevedore-bus-stevedore-linux-*.tgz"))
		if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"package/bin/stevedore", "package/package.json"}) {
			t.Errorf("the npm package of the platform has %v", names)
		}
	})
	t.Run("client", func(t *testing.T) {
		var manifest struct{ Dependencies map[string]string }
		files := npmFiles(t, onlyFile(t, out, "npm", "stevedore-bus-client-*.tgz"))
		if err := json.Unmarshal(files["package/package.json"], &manifest); err != nil {
			t.Fatal(err)
		}
		// What stevedore.mjs imports, not what the tests beside it need.
		needs := manifest.Dependencies
		if len(needs) != 1 || !strings.HasPrefix(needs["@nats-io/transport-node"], "^3.") {
			t.Errorf("the client depends on %v", needs)
		}
	})
	t.Run("registries", func(t *testing.T) { testRegistries(t, out) })
	t.Run("npm", func(t *testing.T) { testNPM(t, filepath.Join(out, "npm")) })
}

// npmFiles returns the files of an npm package.
func npmFiles(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return files
		}
		if err == nil {
			files[header.Name], err = io.ReadAll(archive)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func testWheel(t *testing.T, path string) {
	wheel, err := wheels.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer wheel.Close()
	var names []string
	for _, f := range wheel.File {
		names = append(names, f.Name)
		if strings.HasSuffix(f.Name, "scripts/stevedore") && f.Mode().Perm() != 0o755 {
			t.Errorf("the program has mode %v", f.Mode())
		}
		if f.Name == "stevedore_bus/__init__.py" {
			r, _ := f.Open()
			text, _ := io.ReadAll(r)
			if !strings.Contains(string(text), "from .tinynats import") {
				t.Error("the helper does not import its own module")
			}
		}
	}
	for _, want := range []string{"stevedore_bus-0.1.0.data/scripts/stevedore", "stevedore_bus-0.1.0.data/scripts/stevedore-heartbeat", "stevedore_bus-0.1.0.dist-info/METADATA", "stevedore_bus-0.1.0.dist-info/RECORD"} {
		if !slices.Contains(names, want) {
			t.Errorf("the wheel lacks %s: %v", want, names)
		}
	}
}

// pip accepts the wheel, Python imports the helper, and both programs are there.
func testPip(t *testing.T, wheel string) {
	if err := exec.Command("python3", "-m", "pip", "--version").Run(); err != nil {
		t.Skipf("pip is not installed: %v", err)
	}
	dir := t.TempDir()
	install(t, dir, "python3", "-m", "pip", "install", "--target", dir, "--no-deps", "--no-index", wheel)
	cmd := exec.Command("python3", "-c", "import stevedore_bus; print(stevedore_bus.connect.__module__)")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
	if text, err := cmd.CombinedOutput(); err != nil || string(text) != "stevedore_bus\n" {
		t.Errorf("the import printed %q and ended with %v", text, err)
	}
	passesOn(t, filepath.Join(dir, "bin", "stevedore"))
	passesOn(t, filepath.Join(dir, "bin", "stevedore-heartbeat"))
}

// npx gets the program from a registry that has only the packages of the release, without a
// cache, and without the scripts of packages.
func testNPM(t *testing.T, dir string) {
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("npx is not installed")
	}
	cmd := npx(t, dir, "", "@stevedore-bus/stevedore", "run", "-c", "two words")
	text, err := cmd.Output()
	if string(text) != "got run -c two words\n" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("npx printed %q and ended with %v", text, err)
	}
}

// npx returns "npx -y ARGS" with an empty home, and a registry with the packages of a release. Those
// that it lacks are upstream, if that is not empty.
func npx(t *testing.T, dir, upstream string, args ...string) *exec.Cmd {
	t.Helper()
	packages := map[string]map[string]any{} // their documents, by name
	files := http.FileServer(http.Dir(dir))
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if document, ok := packages[name]; ok {
			_ = json.NewEncoder(w).Encode(document)
			return
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil && upstream != "" {
			http.Redirect(w, r, upstream+name, http.StatusFound)
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(registry.Close)
	all, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, path := range all {
		var manifest map[string]any
		decodeJSON(t, npmFiles(t, path)["package/package.json"], &manifest)
		name, version := manifest["name"].(string), manifest["version"].(string)
		manifest["dist"] = map[string]any{"tarball": registry.URL + "/" + filepath.Base(path)}
		packages[name] = map[string]any{"name": name, "dist-tags": map[string]any{"latest": version}, "versions": map[string]any{version: manifest}}
	}
	cmd := exec.Command("npx", append([]string{"-y"}, args...)...)
	home := t.TempDir()
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "npm_config_registry=" + registry.URL, "npm_config_ignore_scripts=true", "npm_config_update_notifier=false"}
	return cmd
}

// Without the package of its platform, the launcher names that package and says what to do.
func TestReleaseLauncherNeedsItsPlatform(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	dir := t.TempDir()
	launcher, err := os.ReadFile("deploy/release/packages/launcher.cjs")
	err = errors.Join(err,
		os.WriteFile(filepath.Join(dir, "launcher.cjs"), launcher, 0o644),
		os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"name": "@example/tool"}`), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", filepath.Join(dir, "launcher.cjs"))
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	for _, want := range []string{"stevedore: the package @example/tool-", " is not installed", "install without --omit=optional", "build from source: https://"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the launcher printed %q, want %q", out, want)
		}
	}
	if strings.Count(string(out), "\n") != 1 {
		t.Errorf("the launcher printed more than its message: %q", out)
	}
}

// The image of a release has the settings of the Dockerfile, the programs, certificates, and
// folders that any user can write; the same programs make the same bytes.
func TestImageOfARelease(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/etc/ssl/certs/ca-certificates.crt"); err != nil {
		t.Skip(err)
	}
	programs := t.TempDir()
	for _, name := range []string{"stevedore", "stevedore-heartbeat"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("the program "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var files map[string][]byte
	for range 2 {
		out := filepath.Join(t.TempDir(), "image.tar")
		build := exec.Command("go", "run", ".", "v0.1.0", out, programs, programs)
		build.Dir = "deploy/release/image"
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		f, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		again := filesOf(t, f)
		if files != nil && !maps.EqualFunc(files, again, bytes.Equal) {
			t.Error("two builds have different bytes")
		}
		files = again
	}
	type descriptor struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	blob := func(d descriptor) []byte { return files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)] }
	var index, platforms struct{ Manifests []descriptor }
	decodeJSON(t, files["index.json"], &index)
	decodeJSON(t, blob(index.Manifests[0]), &platforms)
	var architectures []string
	for _, platform := range platforms.Manifests {
		architectures = append(architectures, platform.Platform.OS+"/"+platform.Platform.Architecture)
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		decodeJSON(t, blob(platform), &manifest)
		testImageConfig(t, blob(manifest.Config))
		layer, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0])))
		if err != nil {
			t.Fatal(err)
		}
		testImageLayer(t, layer)
	}
	if !slices.Equal(architectures, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("the image is for %v", architectures)
	}
}

func decodeJSON(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v: %.200s", err, data)
	}
}

func filesOf(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// testImageConfig compares the settings of an image with those of the Dockerfile.
func testImageConfig(t *testing.T, data []byte) {
	t.Helper()
	var config struct {
		Config struct {
			User, WorkingDir      string
			Env, Entrypoint, Cmd  []string
			Volumes, ExposedPorts map[string]struct{}
			Healthcheck           struct{ Test []string }
		}
	}
	decodeJSON(t, data, &config)
	c := config.Config
	list := func(words []string) string {
		text, _ := json.Marshal(words) // strings
		return strings.ReplaceAll(string(text), ",", ", ")
	}
	want := []string{"USER " + c.User, "WORKDIR " + c.WorkingDir, "ENV " + strings.Join(c.Env, " "), "ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd),
		"VOLUME " + list(slices.Sorted(maps.Keys(c.Volumes)))}
	for port := range c.ExposedPorts {
		want = append(want, "EXPOSE "+strings.TrimSuffix(port, "/tcp"))
	}
	want = append(want, "HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD "+list(c.Healthcheck.Test[1:]))
	dockerfile, err := os.ReadFile("deploy/container/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(dockerfile), "\n")
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("the Dockerfile has no line %q", line)
		}
	}
}

func testImageLayer(t *testing.T, layer io.Reader) {
	t.Helper()
	modes := map[string]int64{}
	archive := tar.NewReader(layer)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
	for name, mode := range map[string]int64{
		"usr/local/bin/stevedore": 0o755, "usr/local/bin/stevedore-heartbeat": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644,
		"etc/passwd": 0o644, "data/": 0o1777, "workspace/": 0o1777, "tmp/": 0o1777,
	} {
		if modes[name] != mode {
			t.Errorf("%s has the mode %o, want %o", name, modes[name], mode)
		}
	}
}

// testRegistries checks the entries of the MCP registry and of the Docker catalog against the rules
// of their schemas.
func testRegistries(t *testing.T, out string) {
	var entry struct {
		Schema, Name, Description, Version string
		Packages                           []struct {
			RegistryType, Identifier, Version string
			Transport                         struct{ Type string }
			PackageArguments                  []struct{ Type, Value string }
		}
	}
	var manifest struct{ Name, Version, MCPName string }
	data, err := os.ReadFile(filepath.Join(out, "server.json"))
	if err == nil {
		err = json.Unmarshal(bytes.Replace(data, []byte("$schema"), []byte("schema"), 1), &entry)
	}
	packed, globErr := filepath.Glob(filepath.Join(out, "npm", "stevedore-bus-stevedore-[0-9]*.tgz"))
	if err := errors.Join(err, globErr); err != nil || len(packed) != 1 {
		t.Fatal(err, packed)
	}
	if err := json.Unmarshal(npmFiles(t, packed[0])["package/package.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	p := entry.Packages[0]
	if !regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(entry.Name) || len(entry.Description) > 100 || !strings.Contains(entry.Schema, "/2025-12-11/") ||
		entry.Name != manifest.MCPName || p.Identifier != manifest.Name || p.Version != manifest.Version || entry.Version != manifest.Version ||
		p.RegistryType != "npm" || p.Transport.Type != "stdio" || p.PackageArguments[0].Type != "positional" || p.PackageArguments[0].Value != "mcp" {
		t.Errorf("server.json %+v, package.json %+v", entry, manifest)
	}

	var catalog struct {
		Name, Image, Type string
		Meta              struct {
			Category string
			Tags     []string
		}
		About  struct{ Title, Description, Icon string }
		Source struct{ Project, Dockerfile, Commit string }
		Run    struct{ Command, Volumes []string }
		Config struct {
			Description string
			Parameters  struct {
				Type       string
				Properties map[string]struct{ Type string }
				Required   []string
			}
		}
	}
	data, err = os.ReadFile("deploy/container/server.yaml")
	if err == nil {
		dec := yaml.NewDecoder(bytes.NewReader(data))
		dec.KnownFields(true)
		err = dec.Decode(&catalog)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join("..", catalog.Source.Dockerfile)); err != nil || catalog.Image != "mcp/"+catalog.Name || catalog.Type != "server" || len(catalog.Meta.Tags) == 0 ||
		len(catalog.Source.Commit) != 40 || !slices.Equal(catalog.Run.Command, []string{"mcp"}) {
		t.Errorf("server.yaml %+v, %v", catalog, err)
	}
	for _, volume := range catalog.Run.Volumes {
		if name, _, ok := strings.Cut(strings.TrimPrefix(volume, "{{"+catalog.Name+"."), "}}"); ok && catalog.Config.Parameters.Properties[name].Type != "string" {
			t.Errorf("the volume %s has no parameter", volume)
		}
	}
}

// The workflows can be parsed, and name actions by digest.
func TestWorkflowsArePinned(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			Jobs map[string]struct{ Steps []struct{ Uses, Run string } }
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(step.Uses) {
					t.Errorf("%s uses %s, not a digest", file, step.Uses)
				}
				check := exec.Command("bash", "-n")
				check.Stdin = strings.NewReader(step.Run)
				if out, err := check.CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", file, err, out)
				}
			}
		}
	}
}
