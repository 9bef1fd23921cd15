// Image writes a container image of the two programs without a container engine:
//
//	go run . VERSION OUT.tar AMD64_DIR ARM64_DIR
//
// OUT.tar is an OCI layout with an image for each platform, as "docker load", "podman load"
// and "skopeo copy oci-archive:" read it. The image has no base image: the programs are
// static, and all else that they need is in the same layer.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the account of the image. Any other one works too, as both folders are writable for all.
const user = "65532:65532"

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: image VERSION OUT.tar AMD64_DIR ARM64_DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], map[string]string{"amd64": os.Args[3], "arm64": os.Args[4]}); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write writes the image of the programs in dirs, by architecture.
func write(version, out string, dirs map[string]string) error {
	platforms := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := imageOf(version, arch, dirs[arch])
		if err != nil {
			return err
		}
		platforms = mutate.AppendManifests(platforms, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: arch},
		}})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: platforms, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"io.containerd.image.name": "docker.io/library/stevedore:" + version, "org.opencontainers.image.ref.name": version},
	}})
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	return errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), f.Close())
}

func imageOf(version, arch, programs string) (v1.Image, error) {
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		return nil, fmt.Errorf("the image needs the host's certificates: %w", err)
	}
	entries := []entry{
		{"data/", 0o1777, nil}, {"workspace/", 0o1777, nil}, {"tmp/", 0o1777, nil},
		{"etc/passwd", 0o644, []byte("stevedore:x:65532:65532::/data:/sbin/nologin\n")},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates},
	}
	for _, name := range []string{"stevedore", "stevedore-heartbeat"} {
		data, err := os.ReadFile(filepath.Join(programs, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{"usr/local/bin/" + name, 0o755, data})
	}
	layer, err := layerOf(entries)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, configOf(version, arch, image))
}

// configOf has the settings that the Dockerfile has, too; a test compares them.
func configOf(version, arch string, image v1.Image) *v1.ConfigFile {
	file, _ := image.ConfigFile() // it was made here
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.Config = v1.Config{
		User:         user,
		Env:          []string{"STEVEDORE_DATA=/data", "STEVEDORE_WORKSPACE=/workspace", "STEVEDORE_HEALTH=0.0.0.0:8780", "HOME=/data"},
		Entrypoint:   []string{"/usr/local/bin/stevedore"},
		Cmd:          []string{"up", "--quiet"},
		WorkingDir:   "/workspace",
		Volumes:      map[string]struct{}{"/data": {}, "/workspace": {}},
		ExposedPorts: map[string]struct{}{"8780/tcp": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/usr/local/bin/stevedore", "health"}, Interval: 10 * time.Second,
			Timeout: 5 * time.Second, StartPeriod: 30 * time.Second},
		Labels: map[string]string{"org.opencontainers.image.version": version,
			"org.opencontainers.image.source": "https://github.com/stevedore-bus/stevedore", "org.opencontainers.image.licenses": "MIT"},
	}
	return file
}

// entry is a file of a layer, or a folder if its name ends with a slash.
type entry struct {
	name string
	mode int64
	data []byte
}

// layerOf makes a layer of entries that belong to root; equal entries make equal bytes.
func layerOf(entries []entry) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		kind := byte(tar.TypeReg)
		if e.data == nil {
			kind = tar.TypeDir
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: kind, Name: e.name, Mode: e.mode, Size: int64(len(e.data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}
