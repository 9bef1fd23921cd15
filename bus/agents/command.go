package agents

import (
	"fmt"
	"regexp"
	"strings"
)

// Help says which commands a conversation has, in a chat and in a terminal.
const Help = `/help shows this list.
/stop stops what the agent is doing.
/new and a message begins a new conversation, in which the agent does not know the earlier messages.
yes, no, or no and a reason answers a question of the agent.
A message that begins with two slashes goes to the agent with one.`

// UnknownCommand says that there is no such command.
func UnknownCommand(command string) string {
	return fmt.Sprintf("There is no command %s.\n%s", command, Help)
}

// command is what a text begins with that is meant as a command, also a misspelt one: one
// word behind one slash. In groups, chats add the name of the bot: /stop@NAME.
var command = regexp.MustCompile(`^(/[A-Za-z][A-Za-z0-9_-]*)(?:@[A-Za-z0-9_]+)?(?:\s+|$)`)

// Command returns the command at the start of a message, in lower case, and the text behind
// it. A message without a command is all text: a path, such as /etc/hosts, is no command.
func Command(text string) (name, rest string) {
	if strings.HasPrefix(text, "//") {
		return "", text[1:]
	}
	match := command.FindStringSubmatch(text)
	if match == nil {
		return "", text
	}
	return strings.ToLower(match[1]), strings.TrimSpace(text[len(match[0]):])
}

// YesOrNo reads a message as the answer to a question: yes, no, or no with a reason. Any other
// message is no answer.
func YesOrNo(text string) (yes bool, reason string, ok bool) {
	word, reason, _ := strings.Cut(strings.Replace(strings.TrimSpace(text), "\n", " ", 1), " ")
	reason = strings.TrimSpace(reason)
	switch strings.ToLower(strings.Trim(word, ",.!")) {
	case "yes", "y":
		return true, "", reason == ""
	case "no", "n":
		return false, reason, true
	}
	return false, "", false
}
