// Package offload replaces a long tool result by a short reference and reads the
// result back piece by piece.
//
// An Offloader decides which results are too long for a prompt, stores each as an
// artifact and returns the reference. A Reader returns pages, lines, matches and jq
// results of artifacts, also as tools for a model. A Store contains the artifacts:
// see the packages disk, object and mem.
//
// A new Store uses the package record and must pass the suite in storetest;
// integration/testdata/extstore is an example in another module.
package offload
