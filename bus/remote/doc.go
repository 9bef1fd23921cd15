// Package remote makes tools of what answers requests on a NATS subject, written
// in whatever language.
//
// A tool is a subject; any number of processes subscribe to it in a queue group
// and share its calls. The protocol is two requests:
//
//	SUBJECT.definition   no body; the answer is {"description", "parameters", "effect"},
//	                     where parameters is a JSON schema of type object
//	SUBJECT              the body is the call: {"id", "session", "tool", "args", "deadline", ...};
//	                     the answer is text, or {"for_llm", "for_user", "is_error"}
//
// A failure is told by the headers of the NATS service protocol,
// Nats-Service-Error-Code and Nats-Service-Error. The deadline in the body is
// when nobody listens any more; who wants to know of a cancellation earlier
// subscribes to stevedore.cancel.<session>.<call>.
//
// The subject lies outside of every stream, which would answer in the tool's
// place; below the prefix stevedore, stevedore.rpc.> is such.
//
// A foreign tool's answer is text for the model and the user, and nothing else:
// it cannot be silent, choose a channel, or exempt itself from offloading.
package remote
