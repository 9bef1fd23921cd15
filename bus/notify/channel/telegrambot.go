package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/stevedore-bus/stevedore/bus"
)

// addressed is a command for one bot of a group, as Telegram completes it: /stop@NAME.
var addressed = regexp.MustCompile(`^/[A-Za-z0-9_]{1,32}@([A-Za-z0-9_]{5,32})(?:\s|$)`)

// isForOtherBot reports whether a message is a command for another bot of its group. If the
// server does not say which name this bot has, all commands are for this bot.
func (t *Telegram) isForOtherBot(ctx context.Context, text string) (bool, error) {
	match := addressed.FindStringSubmatch(text)
	if match == nil {
		return false, nil
	}
	if t.name == "" {
		var raw json.RawMessage
		err := t.request(ctx, "getMe", object{}, &raw)
		if _, refused := bus.Rejected(err); err != nil && !refused && !errors.Is(err, errNotFound) {
			return false, fmt.Errorf("find out whether a command is for this bot: %w", err)
		}
		var me telegramUser
		if json.Unmarshal(raw, &me) == nil {
			t.name = me.Username
		}
	}
	return t.name != "" && !strings.EqualFold(match[1], t.name), nil
}
