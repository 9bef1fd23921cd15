// Command lint reads the files for Kubernetes and for Docker Compose as kubectl and Docker do, and
// checks the objects of Kubernetes against their types:
//
//	go run . KUSTOMIZATION_DIR COMPOSE_FILE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: lint KUSTOMIZATION_DIR COMPOSE_FILE")
		os.Exit(2)
	}
	if err := errors.Join(kubernetes(os.Args[1]), compose(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kubernetes renders a kustomization, and refuses unknown kinds and fields.
func kubernetes(dir string) error {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, resource := range rendered.Resources() {
		object, ok := map[string]any{
			"Deployment": &apps.Deployment{}, "Job": &batch.Job{}, "ConfigMap": &core.ConfigMap{}, "Service": &core.Service{},
		}[resource.GetKind()]
		text, err := resource.AsYAML()
		if !ok {
			err = fmt.Errorf("the kind %s is not known", resource.GetKind())
		} else if err == nil {
			err = yaml.UnmarshalStrict(text, object)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", resource.CurId(), err))
			continue
		}
		fmt.Println(resource.CurId())
	}
	return errors.Join(failed...)
}

// compose loads a Compose file with the schema of its specification.
func compose(file string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithOsEnv)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	for _, name := range project.ServiceNames() {
		fmt.Println("service", name)
	}
	return nil
}
