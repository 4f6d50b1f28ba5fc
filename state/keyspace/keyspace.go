// Package keyspace follows changes in Redis: which keys were written, by the
// keyspace notifications that the server sends when it was told to.
//
// Notifications are not kept for who is away. So [Watch] says each time that
// it listens (again): what happened before has to be looked up.
package keyspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// pause is between tries to listen.
	pause = 200 * time.Millisecond
	// look is how often a cluster is asked for its nodes.
	look = 15 * time.Second
)

// Watch calls changed with each key of a database that fits one of the patterns
// (Redis' globs, see [Escape]) when it is written, until ctx ends. listening is called when the server has confirmed a pattern, at first
// and after each interruption; lost when the connection is. All three may be
// called by several goroutines, and must not wait.
//
// In a cluster every node tells of its own keys, and all are listened to. What
// is subscribed to covers all databases, as the channels that an ACL names for
// psubscribe have to be those patterns to the letter: with an asterisk for the
// database, they say the same whatever number the settings have.
func Watch(ctx context.Context, client rueidis.Client, db int, patterns []string, changed func(key string), listening func(), lost func(error)) {
	channels := make([]string, len(patterns))
	for i, p := range patterns {
		channels[i] = "__keyspace@*__:" + p
	}
	ours := fmt.Sprintf("__keyspace@%d__:", db)
	var wg sync.WaitGroup
	defer wg.Wait()
	cancels := map[string]context.CancelFunc{}
	for {
		nodes := map[string]rueidis.Client{"": client}
		if client.Mode() == rueidis.ClientModeCluster {
			nodes = client.Nodes()
		}
		for name, node := range nodes {
			if cancels[name] != nil {
				continue
			}
			nodeCtx, cancel := context.WithCancel(ctx)
			cancels[name] = cancel
			wg.Go(func() { follow(nodeCtx, node, channels, ours, changed, listening, lost) })
		}
		for name, cancel := range cancels {
			if nodes[name] == nil {
				cancel()
				delete(cancels, name)
			}
		}
		if sleep(ctx, look) != nil {
			for _, cancel := range cancels {
				cancel()
			}
			return
		}
	}
}

func follow(ctx context.Context, client rueidis.Client, channels []string, ours string, changed func(string), listening func(), lost func(error)) {
	// The library subscribes again by itself after some interruptions: its
	// hooks are how we learn of them.
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "psubscribe" {
			listening()
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, _ rueidis.CommandClient) error {
		if ctx.Err() == nil {
			lost(err)
		}
		return err
	})
	for {
		_ = client.Receive(hooked, client.B().Psubscribe().Pattern(channels...).Build(), func(m rueidis.PubSubMessage) {
			if key, ok := strings.CutPrefix(m.Channel, ours); ok {
				changed(key)
			}
		}) // lost has the error
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// wanted are the classes of notify-keyspace-events that we need: keyspace
// events of generic commands, strings, hashes, sets, and keys that expire.
const wanted = "Kg$hsx"

// Enable looks whether the server sends the notifications that Watch needs.
// If it does not, set says to change that with CONFIG SET, keeping what others
// asked for. The error says what an operator has to do.
func Enable(ctx context.Context, client rueidis.Client, set bool) error {
	nodes := map[string]rueidis.Client{"": client}
	if client.Mode() == rueidis.ClientModeCluster {
		nodes = client.Nodes()
	}
	var errs []error
	for name, node := range nodes {
		if err := enable(ctx, node, set); err != nil {
			if name != "" {
				err = fmt.Errorf("%s: %w", name, err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func enable(ctx context.Context, client rueidis.Client, set bool) error {
	got, err := client.Do(ctx, client.B().ConfigGet().Parameter("notify-keyspace-events").Build()).AsStrMap()
	if err != nil {
		return fmt.Errorf("whether the server sends keyspace notifications cannot be asked (%w); if it does not, changes are seen at the next reload only", err)
	}
	have := got["notify-keyspace-events"]
	missing := missing(have)
	switch {
	case missing == "":
		return nil
	case !set:
		return fmt.Errorf("notify-keyspace-events is %q and lacks %q: changes are seen at the next reload only; CONFIG SET notify-keyspace-events %q, or let us do so", have, missing, have+missing)
	}
	if err := client.Do(ctx, client.B().ConfigSet().ParameterValue().ParameterValue("notify-keyspace-events", have+missing).Build()).Error(); err != nil {
		return fmt.Errorf("set notify-keyspace-events to %q: %w; changes are seen at the next reload only", have+missing, err)
	}
	return nil
}

// missing returns what flags lack of wanted; A stands for all but K and E.
func missing(flags string) string {
	var m []rune
	for _, f := range wanted {
		if !strings.ContainsRune(flags, f) && (f == 'K' || !strings.Contains(flags, "A")) {
			m = append(m, f)
		}
	}
	return string(m)
}

// Escape makes a text one that only fits itself in a pattern.
func Escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if slices.Contains([]byte(`*?[\`), c) {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
