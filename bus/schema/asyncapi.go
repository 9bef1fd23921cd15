package schema

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
)

// object is a JSON object.
type object map[string]any

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// parameters describe the parameters of subjects.
var parameters = map[string]string{
	"queue":   "a named subset of the calls; a worker consumes the queue default if it names none",
	"tool":    "the name of the tool",
	"session": "the token of the conversation",
	"call":    "the token of the call's id",
	"channel": "the name of a channel to the user",
	"kind":    "call, tick, notification or result",
	"name":    "the tool, the schedule or the channel",
	"subject": "the subject of the tool, which the operator chooses",
}

// AsyncAPI returns the contract as an AsyncAPI 3 document. It describes Stevedore: it
// receives what a client sends.
func AsyncAPI(s bus.Subjects, version string) ([]byte, error) {
	schemas, err := Schemas()
	if err != nil {
		return nil, err
	}
	channels, operations, messages, answers := object{}, object{}, object{}, object{}
	for name := range schemas {
		messages[name] = object{"name": name, "contentType": "application/json", "payload": ref("components", "schemas", name)}
	}
	messages["Empty"] = object{"name": "Empty", "summary": "no body", "payload": object{}}
	for _, op := range Operations(s) {
		body := op.Body
		if body == "" {
			body = "Empty"
		}
		channel := object{"address": op.Subject, "messages": object{body: ref("components", "messages", body)}}
		if found := parameter.FindAllStringSubmatch(op.Subject, -1); found != nil {
			described := object{}
			for _, p := range found {
				described[p[1]] = object{"description": parameters[p[1]]}
			}
			channel["parameters"] = described
		}
		channels[op.Name] = channel
		action := "receive"
		if op.Receive {
			action = "send"
		}
		operation := object{
			"action": action, "summary": op.Summary,
			"channel": ref("channels", op.Name), "messages": []any{ref("channels", op.Name, "messages", body)},
		}
		if op.Answer != "" {
			answers[op.Answer] = ref("components", "messages", op.Answer)
			operation["reply"] = object{
				"channel":  ref("channels", "answers"),
				"messages": []any{ref("channels", "answers", "messages", op.Answer), ref("channels", "answers", "messages", "Rejection")},
			}
		}
		operations[op.Name] = operation
	}
	answers["Rejection"] = ref("components", "messages", "Rejection")
	channels["answers"] = object{"address": nil, "description": "The inbox of the requester: the reply subject of its request.", "messages": answers}
	doc := object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Stevedore", "version": version,
			"description": "Runs the tools of LLM agents on a NATS bus and keeps big results out of the prompt. docs/protocol.md explains each subject.",
		},
		"defaultContentType": "application/json",
		"servers":            object{"embedded": object{"host": "127.0.0.1:4222", "protocol": "nats", "description": "The embedded server."}},
		"channels":           channels,
		"operations":         operations,
		"components":         object{"messages": messages, "schemas": schemas},
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	// The schemas refer to each other within a document of their own.
	return []byte(strings.ReplaceAll(string(text), `"#/$defs/`, `"#/components/schemas/`)), err
}

// ref refers to a place in the document.
func ref(path ...string) object { return object{"$ref": "#/" + strings.Join(path, "/")} }
