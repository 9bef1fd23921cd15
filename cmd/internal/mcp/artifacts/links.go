package artifacts

import (
	"fmt"
	"slices"
)

// Links says which clients get content blocks of the type resource_link: "on" for all,
// "off" for none. "auto", the default, leaves out those that do not know them or that
// cannot use them. It is a flag's value.
type Links string

// linksSince is the first revision with content blocks of the type resource_link.
const linksSince = "2025-06-18"

// noLinks are clients that make something of a resource_link that models refuse. The one of
// LangChain makes a file without content, which is an error of ChatOpenAI.
var noLinks = []string{"@langchain/mcp-adapters"}

// For reports whether a client gets links, by its name and its latest revision; "" is the
// latest one.
func (l Links) For(client, version string) bool {
	switch l {
	case "on":
		return true
	case "off":
		return false
	}
	return (version == "" || version >= linksSince) && !slices.Contains(noLinks, client)
}

// String returns the value of the flag.
func (l Links) String() string {
	if l == "" {
		return "auto"
	}
	return string(l)
}

// Type is the type of the flag's value.
func (Links) Type() string { return "WHEN" }

// Set sets the value of the flag.
func (l *Links) Set(value string) error {
	if !slices.Contains([]string{"auto", "on", "off"}, value) {
		return fmt.Errorf("want auto, on or off")
	}
	*l = Links(value)
	return nil
}
