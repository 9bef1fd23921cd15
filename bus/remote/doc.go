// Package remote offers tools that other programs serve on NATS subjects, in any
// language.
//
// A tool is a subject. Any number of processes subscribe to it in a queue group and
// share its calls. The protocol has two requests:
//
//	SUBJECT.definition   no body; the response is {"description", "parameters", "effect"},
//	                     where parameters is a JSON schema of type object
//	SUBJECT              the body is the call: {"id", "session", "tool", "args", "deadline", ...};
//	                     the response is text, or {"for_llm", "for_user", "is_error"}
//
// The tool reports a failure in the headers of the NATS service protocol,
// Nats-Service-Error-Code and Nats-Service-Error. After the deadline in the body,
// the worker ignores the response. A tool that wants to know about a cancellation
// before subscribes to stevedore.cancel.<session>.<call>.
//
// No stream may capture the subject, because it would respond before the tool. Below
// the prefix stevedore, only stevedore.rpc.> is outside of all streams.
//
// A response is only text for the model and the user: the tool cannot set silent or
// a channel, and its result is offloaded like any other.
//
// To accept another field of a response, read it in Tool.result; to accept another
// field of a definition, add it to definition.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package remote
