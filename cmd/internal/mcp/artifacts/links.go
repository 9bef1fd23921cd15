package artifacts

import "slices"

// linksSince is the first revision with content blocks of the type resource_link.
const linksSince = "2025-06-18"

// noLinks are clients that make something of a resource_link that models refuse. The one of
// LangChain makes a file without content, which is an error of ChatOpenAI.
var noLinks = []string{"@langchain/mcp-adapters"}

// GetsLinks reports whether a client gets content blocks of the type resource_link, by its name and
// its latest revision; "" is the latest one.
func GetsLinks(client, version string) bool {
	return (version == "" || version >= linksSince) && !slices.Contains(noLinks, client)
}
