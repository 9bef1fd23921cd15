package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// If a block of a stream is damaged, the server drops the rest of the block, perhaps the
// whole stream, and goes on with what remains. It says so only in a warning, or nowhere but
// in the state of the stream until its next start. So this file reports it as an error and
// marks the stream, so that every client sees it.

var (
	damagedBlock  = regexp.MustCompile(`^Filestore \[(.+?)\] .*corrupt`)
	rebuiltStream = regexp.MustCompile(`^Filestore \[(.+?)\] Recovering stream state from index errored`)
)

// damage is what is known of a damaged stream. An empty problem means that the server read
// all blocks of the stream, as it does after a crash, and may have dropped data.
type damage struct{ stream, problem string }

// damageIn returns the damage that a text of the server's log reports.
func damageIn(text string) (d damage, ok bool) {
	if m := damagedBlock.FindStringSubmatch(text); m != nil {
		return damage{m[1], text}, true
	}
	if m := rebuiltStream.FindStringSubmatch(text); m != nil {
		return damage{stream: m[1]}, true
	}
	return damage{}, false
}

// maxDeleted limits the answer of the server in lost, which names each deleted message.
const maxDeleted = 1_000_000

// lost asks the server what it dropped of a stream when it started. It is empty if it
// dropped nothing, or only an incomplete record, or if the stream has too many deleted
// messages to ask.
func (s *Server) lost(ctx context.Context, b *bus.Bus, stream string) (problem string, err error) {
	info, err := b.JetStream().Stream(ctx, stream)
	if err != nil || info.CachedInfo().State.NumDeleted > maxDeleted {
		return "", err
	}
	msg, err := b.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, []byte(`{"deleted_details":true}`))
	if err != nil {
		return "", err
	}
	var answer struct {
		State struct {
			Lost *struct {
				Bytes int64 `json:"bytes"`
			} `json:"lost"`
		} `json:"state"`
	}
	err = json.Unmarshal(msg.Data, &answer)
	switch lost := answer.State.Lost; {
	case err != nil || lost == nil:
		return "", err
	case lost.Bytes == (*s.torn.Load())[stream]:
		s.cfg.Log.Warn().Str("stream", stream).Int64("bytes", lost.Bytes).Msg("a stream ended with an incomplete record, which a crash during a write leaves; the server removed it")
		return "", nil
	default:
		return fmt.Sprintf("after a crash, %d bytes of it were unreadable, and the server dropped them", lost.Bytes), nil
	}
}

// reportDamage logs and marks damaged streams until the server closes. The server warns at
// each read of a damaged block, so each of its texts is reported once: later damage is
// reported again, even if an operator has accepted the loss of before.
func (s *Server) reportDamage() {
	reported := map[damage]bool{}
	for {
		select {
		case d := <-s.damaged:
			if reported[d] {
				continue
			}
			problem, err := s.markDamaged(d)
			if err != nil && s.closing.Err() == nil {
				s.cfg.Log.Error().Err(err).Str("stream", d.stream).Msg("cannot mark a stream that may be damaged; worker status does not show it")
			}
			if problem != "" {
				reported[d] = true
				s.cfg.Log.Error().Str("stream", d.stream).Str("problem", problem).Str("dir", s.cfg.Dir).Msg("a stream on the disk is damaged: " + bus.DamageAdvice)
			}
		case <-s.closing.Done():
			return
		}
	}
}

// markDamaged stores the damage in the metadata of the stream. The problem is empty if the
// stream is not damaged.
func (s *Server) markDamaged(d damage) (problem string, err error) {
	ctx, cancel := context.WithTimeout(s.closing, 30*time.Second)
	defer cancel()
	b, err := bus.Connect(ctx, s.ClientConfig(bus.Config{Log: s.cfg.Log}))
	if err != nil {
		return d.problem, err
	}
	defer b.Close()
	if d.problem == "" {
		if d.problem, err = s.lost(ctx, b, d.stream); d.problem == "" || err != nil {
			return "", err
		}
	}
	stream, err := b.JetStream().Stream(ctx, d.stream)
	if err != nil {
		return d.problem, err
	}
	config := stream.CachedInfo().Config
	if config.Metadata == nil {
		config.Metadata = map[string]string{}
	}
	config.Metadata[bus.DamagedKey] = fmt.Sprintf("%s: %s", time.Now().UTC().Format(time.RFC3339), d.problem)
	_, err = b.JetStream().UpdateStream(ctx, config)
	return d.problem, err
}
