// Command packages makes the npm packages and the Python wheels of a release from its built
// programs: one of each per platform, the npm package that chooses among them, and the npm
// package of the helper for Node. None of them runs a script when it is installed.
//
//	packages VERSION OUT DIR...     each DIR is named ..._OS_ARCH, as Go calls them
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The names of the packages. The npm packages of the platforms are npmName-PLATFORM-ARCH.
const (
	npmName    = "@stevedore-bus/stevedore"
	clientName = "@stevedore-bus/client"
	wheelName  = "stevedore_bus"
	about      = "Durable calls of the tools of LLM agents, on NATS"
	home       = "https://github.com/stevedore-bus/stevedore"
	// registryName is the name in the MCP registry.
	registryName = "io.github.stevedore-bus/stevedore"
)

// launcher is the program of the npm package npmName.
//
//go:embed launcher.cjs
var launcher []byte

// platform is one that programs are built for.
type platform struct{ npmOS, npmArch, wheel string }

var platforms = map[string]platform{
	"linux_amd64":   {"linux", "x64", "manylinux_2_17_x86_64.musllinux_1_1_x86_64"},
	"linux_arm64":   {"linux", "arm64", "manylinux_2_17_aarch64.musllinux_1_1_aarch64"},
	"darwin_amd64":  {"darwin", "x64", "macosx_12_0_x86_64"},
	"darwin_arm64":  {"darwin", "arm64", "macosx_12_0_arm64"},
	"windows_amd64": {"win32", "x64", "win_amd64"},
	"windows_arm64": {"win32", "arm64", "win_arm64"},
}

// file is a file of a package.
type file struct {
	name    string
	body    []byte
	program bool
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: packages VERSION OUT DIR...")
		os.Exit(2)
	}
	if err := run(strings.TrimPrefix(os.Args[1], "v"), os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func run(version, out string, dirs []string) error {
	optional := map[string]string{}
	for _, dir := range dirs {
		tokens := strings.Split(filepath.Base(dir), "_")
		p, ok := platforms[strings.Join(tokens[max(len(tokens)-2, 0):], "_")]
		if !ok {
			return fmt.Errorf("%s: the name does not end in a known _OS_ARCH", dir)
		}
		name := fmt.Sprintf("%s-%s-%s", npmName, p.npmOS, p.npmArch)
		optional[name] = version
		if err := platformPackages(version, out, dir, name, p); err != nil {
			return err
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	manifest := manifestOf(npmName, version)
	manifest["bin"], manifest["mcpName"] = map[string]string{"stevedore": "launcher.cjs"}, registryName
	manifest["optionalDependencies"] = optional
	return errors.Join(writeNPM(out, manifest, []file{{"launcher.cjs", launcher, true}, {"README.md", readme, false}}),
		clientPackage(version, out), registryEntry(version, out))
}

// registryEntry writes OUT/server.json, which mcp-publisher sends to the MCP registry
// (https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json).
func registryEntry(version, out string) error {
	entry, err := json.MarshalIndent(map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name":    registryName, "title": "Stevedore", "description": about, "version": version,
		"repository": map[string]string{"url": home, "source": "github"},
		"packages": []any{map[string]any{
			"registryType": "npm", "identifier": npmName, "version": version, "transport": map[string]string{"type": "stdio"},
			"packageArguments": []any{map[string]string{"type": "positional", "value": "mcp"}},
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "server.json"), append(entry, '\n'), 0o644)
}

// platformPackages makes the npm package and the wheel with the programs in dir. The npm package
// has only stevedore, which its launcher starts.
func platformPackages(version, out, dir, name string, p platform) error {
	manifest := manifestOf(name, version)
	manifest["os"], manifest["cpu"] = []string{p.npmOS}, []string{p.npmArch}
	var npm, wheel []file
	for _, program := range []string{"stevedore", "stevedore-heartbeat"} {
		if p.npmOS == "win32" {
			program += ".exe"
		}
		body, err := os.ReadFile(filepath.Join(dir, program))
		if err != nil {
			return err
		}
		if strings.TrimSuffix(program, ".exe") == "stevedore" {
			npm = append(npm, file{"bin/" + program, body, true})
		}
		wheel = append(wheel, file{fmt.Sprintf("%s-%s.data/scripts/%s", wheelName, version, program), body, true})
	}
	return errors.Join(writeNPM(out, manifest, npm), writeWheel(out, version, p.wheel, wheel))
}

// imported finds the modules that a JavaScript module imports.
var imported = regexp.MustCompile(`(?m)^import\s(?:[^;"']+\sfrom\s)?\s*["']([^"']+)["']`)

// needsOf returns the npm packages that a JavaScript module imports, with the versions that it
// is tested with.
func needsOf(source []byte, tested map[string]string) (map[string]string, error) {
	needs := map[string]string{}
	for _, match := range imported.FindAllSubmatch(source, -1) {
		name := string(match[1])
		if strings.HasPrefix(name, "node:") {
			continue
		}
		version, ok := tested[name]
		if !ok {
			return nil, fmt.Errorf("the helper for Node imports %s, which is not in its package.json", name)
		}
		needs[name] = "^" + version
	}
	return needs, nil
}

// clientPackage makes the npm package of the helper for Node.
func clientPackage(version, out string) error {
	data, err := os.ReadFile("integration/node/package.json")
	source, err2 := os.ReadFile("integration/node/stevedore.mjs")
	types, err3 := os.ReadFile("integration/node/stevedore.d.mts")
	adapters, err4 := os.ReadFile("integration/node/frameworks.mjs")
	adapterTypes, err5 := os.ReadFile("integration/node/frameworks.d.mts")
	readme, err6 := os.ReadFile("integration/node/README.md")
	if err := errors.Join(err, err2, err3, err4, err5, err6); err != nil {
		return err
	}
	var tested struct{ Dependencies, Engines map[string]string }
	if err := json.Unmarshal(data, &tested); err != nil {
		return err
	}
	needs, err := needsOf(source, tested.Dependencies)
	if err != nil {
		return err
	}
	manifest := manifestOf(clientName, version)
	manifest["type"], manifest["engines"], manifest["dependencies"] = "module", tested.Engines, needs
	manifest["exports"] = map[string]any{
		".":            map[string]string{"types": "./stevedore.d.mts", "default": "./stevedore.mjs"},
		"./frameworks": map[string]string{"types": "./frameworks.d.mts", "default": "./frameworks.mjs"},
	}
	return writeNPM(out, manifest, []file{
		{"stevedore.mjs", source, false}, {"stevedore.d.mts", types, false},
		{"frameworks.mjs", adapters, false}, {"frameworks.d.mts", adapterTypes, false}, {"README.md", readme, false},
	})
}

func manifestOf(name, version string) map[string]any {
	return map[string]any{
		"name": name, "version": version, "description": about, "license": "MIT",
		"repository": map[string]string{"type": "git", "url": "git+" + home + ".git"},
	}
}

// epoch is the time of all files, so that the same programs make the same packages.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// writeNPM writes OUT/npm/NAME-VERSION.tgz, as "npm pack" names it.
func writeNPM(out string, manifest map[string]any, files []file) error {
	body, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	base := strings.ReplaceAll(strings.TrimPrefix(manifest["name"].(string), "@"), "/", "-")
	return create(filepath.Join(out, "npm", fmt.Sprintf("%s-%s.tgz", base, manifest["version"])), func(f *os.File) error {
		zipped := gzip.NewWriter(f)
		archive := tar.NewWriter(zipped)
		for _, each := range append([]file{{"package.json", body, false}}, files...) {
			mode := int64(0o644)
			if each.program {
				mode = 0o755
			}
			err := archive.WriteHeader(&tar.Header{Name: "package/" + each.name, Mode: mode, Size: int64(len(each.body)), ModTime: epoch})
			if err == nil {
				_, err = archive.Write(each.body)
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(archive.Close(), zipped.Close())
	})
}

// writeWheel writes OUT/python/NAME-VERSION-py3-none-PLATFORM.whl with the programs and the
// helper for Python (https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
func writeWheel(out, version, tag string, files []file) error {
	helper, err := os.ReadFile("integration/python/stevedore_bus.py")
	client, err2 := os.ReadFile("integration/python/tinynats.py")
	adapters, err3 := os.ReadFile("integration/python/frameworks.py")
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	local := strings.Replace(string(helper), "from tinynats import", "from .tinynats import", 1)
	info := fmt.Sprintf("%s-%s.dist-info/", wheelName, version)
	var tags strings.Builder
	for each := range strings.SplitSeq(tag, ".") {
		tags.WriteString("Tag: py3-none-" + each + "\n")
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nHome-page: %s\nLicense: MIT\nRequires-Python: "+
		">=3.9\n\nThe programs stevedore and stevedore-heartbeat, and their client for Python: import stevedore_bus. See %s\n", wheelName, version, about, home, home)
	files = append(files,
		file{wheelName + "/__init__.py", []byte(local), false}, file{wheelName + "/tinynats.py", client, false}, file{wheelName + "/frameworks.py", adapters, false},
		file{info + "METADATA", []byte(metadata), false},
		file{info + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: stevedore-release\nRoot-Is-Purelib: false\n" + tags.String()), false})
	var record strings.Builder
	for _, each := range files {
		sum := sha256.Sum256(each.body)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", each.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(each.body))
	}
	record.WriteString(info + "RECORD,,\n")
	files = append(files, file{info + "RECORD", []byte(record.String()), false})
	return create(filepath.Join(out, "python", fmt.Sprintf("%s-%s-py3-none-%s.whl", wheelName, version, tag)), func(f *os.File) error {
		archive := zip.NewWriter(f)
		for _, each := range files {
			header := &zip.FileHeader{Name: each.name, Method: zip.Deflate, Modified: epoch}
			header.SetMode(0o644)
			if each.program {
				header.SetMode(0o755)
			}
			w, err := archive.CreateHeader(header)
			if err == nil {
				_, err = w.Write(each.body)
			}
			if err != nil {
				return err
			}
		}
		return archive.Close()
	})
}

func create(path string, write func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
