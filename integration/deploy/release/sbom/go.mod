module github.com/stevedore-bus/stevedore/integration/deploy/release/sbom

go 1.26

require github.com/CycloneDX/cyclonedx-go v0.12.0
