package artifacts

import "strings"

// Way is how a model reads stored results, in the words of references and errors.
type Way struct {
	list              string // lists what is stored
	before, or, end   string // of a call with one of several arguments
	form              func(argument string) string
	advice, unadvised string // before a single argument; the argument that goes without saying
}

// forms are the arguments of ReadResult outside of a tool.
var forms = map[string]string{"grep": "grep=REGEXP", "lines": "lines=10-40", "offset": "offset=0", "jq": "jq=QUERY", "sql": "sql=SELECT"}

// ToolWay is ReadResult under a name.
func ToolWay(name string) Way {
	itself := func(argument string) string { return argument }
	return Way{list: name, before: name + "(id, ", or: "|", end: ")", form: itself, advice: name + " with ", unadvised: "offset"}
}

// ResourceWay is a tool of the host that reads the resources of a session.
func ResourceWay(session string) Way {
	read := "read_mcp_resource of this server, uri "
	return Way{list: read + URI(session, ""), before: read + URI(session, "ID"), or: " or ", form: func(argument string) string {
		return "?" + forms[argument]
	}}
}

// CommandWay is a command, to which an id and flags are added.
func CommandWay(command string) Way {
	return Way{list: command, before: "the command: " + command + " ID ", or: " or ", form: func(argument string) string {
		return "--" + strings.Replace(forms[argument], "=", " ", 1)
	}}
}

// call returns the words for a call with one of several arguments.
func (w Way) call(arguments []string) string {
	var all []string
	for _, argument := range arguments {
		all = append(all, w.form(argument))
	}
	return w.before + strings.Join(all, w.or) + w.end
}

// with returns the words of advice to use one argument; "" is none.
func (w Way) with(argument string) string {
	if argument == "" || argument == w.unadvised {
		return w.list
	}
	return w.advice + w.form(argument)
}
