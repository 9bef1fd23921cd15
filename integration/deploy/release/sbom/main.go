// Command sbom prints a CycloneDX document of the modules in Go programs, with the
// licence that each module's files contain: sbom PROGRAM...
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(programs []string) error {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: "stevedore"}}
	var components []cdx.Component
	seen := map[string]bool{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			purl := "pkg:golang/" + m.Path + "@" + m.Version
			if seen[purl] {
				continue
			}
			seen[purl] = true
			licences, err := licencesOf(m.Path + "@" + m.Version)
			if err != nil {
				return err
			}
			components = append(components, cdx.Component{
				Type: cdx.ComponentTypeLibrary, BOMRef: purl, PackageURL: purl,
				Name: m.Path, Version: m.Version, Licenses: licences,
			})
		}
	}
	bom.Components = &components
	encoder := cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON)
	return encoder.SetPretty(true).Encode(bom)
}

// licencesOf returns the licences in the files of a module. A module without one is an
// error: the release must not contain it.
func licencesOf(module string) (*cdx.Licenses, error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", module, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	var all cdx.Licenses
	seen := map[string]bool{}
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "license*"} {
		files, err := filepath.Glob(filepath.Join(downloaded.Dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // a directory
			}
			if id := licenceID(string(text)); id != "" && !seen[id] {
				seen[id] = true
				all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: id}})
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no licence found in %s", module, downloaded.Dir)
	}
	return &all, nil
}

// licenceID recognises a licence by sentences that only it has.
func licenceID(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, l := range []struct{ id, sentence string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License"},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software"},
		{"ISC", "Permission to use, copy, modify, and distribute this software"},
		{"BSD-3-Clause", "may be used to endorse or promote products derived from this software"},
		{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
		{"Unlicense", "This is free and unencumbered software"},
	} {
		if strings.Contains(text, l.sentence) {
			return l.id
		}
	}
	return ""
}
