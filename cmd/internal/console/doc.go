// Package console serves the page: a web page that shows an installation and lets its
// owner act on it. The page is static files, and its data is a JSON API.
//
//	console     Config, New, Handler: the guard, the files, the routes
//	api         answers, errors, read-only mode
//	events      the stream of live events
//	calls       running calls, their history, one call, cancel
//	artifacts   records, lines, grep, jq, download
//	sessions    conversations, and messages to the agent
//	approvals, schedules, dead, channels
//	bulk        changes of many dead letters or calls
//	usage       what the agents used
//	static      the files of the page
package console
