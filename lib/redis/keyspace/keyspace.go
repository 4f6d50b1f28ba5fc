// Package keyspace follows changes in Redis: which keys were written, according to keyspace
// notifications, if the server sends them.
//
// Notifications are not kept for clients that are away. So [Watch] reports each time that it
// begins to listen: check for earlier changes.
package keyspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/wait"
)

const (
	// pause is between attempts to listen.
	pause = 200 * time.Millisecond
	// look is how often a cluster is asked for its nodes.
	look = 5 * time.Second
)

// A Watcher sets the keys that Watch listens to, and gets its reports. Its
// functions may be called concurrently and must not block.
type Watcher struct {
	DB       int      // number of the database
	Patterns []string // globs of keys, see [Escape]
	// Changed is called for each written key.
	Changed func(key string)
	// Listening is called when the server has confirmed the patterns, initially and after each
	// interruption; in a cluster for each node.
	Listening func()
	// Lost is called when listening to a server fails.
	Lost func(error)
}

// Watch listens until ctx ends. In a cluster every node reports its own keys, so
// it listens to all of them. The channels cover all databases: an ACL must name
// the same channels for psubscribe, and with an asterisk they do not depend on
// the database in the settings.
func Watch(ctx context.Context, client *redis.Client, w Watcher) {
	sub := redis.Subscription{Ready: w.Listening}
	for _, p := range w.Patterns {
		sub.Patterns = append(sub.Patterns, "__keyspace@*__:"+p)
	}
	ours := fmt.Sprintf("__keyspace@%d__:", w.DB)
	sub.Message = func(channel string, _ []byte) {
		if key, ok := strings.CutPrefix(channel, ours); ok {
			w.Changed(key)
		}
	}
	var work sync.WaitGroup
	defer work.Wait()
	followed := map[string]context.CancelFunc{}
	for {
		nodes := client.Nodes()
		if len(nodes) == 1 {
			nodes = []string{""} // whichever it is
		}
		for _, node := range nodes {
			if followed[node] != nil {
				continue
			}
			nodeCtx, cancel := context.WithCancel(ctx)
			followed[node] = cancel
			sub := sub
			sub.Node = node
			work.Go(func() { follow(nodeCtx, client, sub, w.Lost) })
		}
		for node, cancel := range followed {
			if !slices.Contains(nodes, node) {
				cancel()
				delete(followed, node)
			}
		}
		if wait.For(ctx, look) != nil {
			for _, cancel := range followed {
				cancel()
			}
			return
		}
	}
}

// follow listens to one node.
func follow(ctx context.Context, client *redis.Client, sub redis.Subscription, lost func(error)) {
	for {
		if err := client.Subscribe(ctx, sub); ctx.Err() == nil {
			lost(err)
		}
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}

// wanted are the classes of notify-keyspace-events that we need: keyspace
// events of generic commands, strings, hashes, sets, and keys that expire.
const wanted = "Kg$hsx"

const setting = "notify-keyspace-events"

// Enable checks whether the server sends the notifications that Watch needs. If
// not, and set is true, it enables them with CONFIG SET and keeps the classes
// that are set already. The error gives the operator the remedy.
func Enable(ctx context.Context, client *redis.Client, set bool) error {
	var errs []error
	nodes := client.Nodes()
	for _, node := range nodes {
		if err := enable(ctx, client, node, set); err != nil {
			if len(nodes) > 1 {
				err = fmt.Errorf("%s: %w", node, err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func enable(ctx context.Context, client *redis.Client, node string, set bool) error {
	var b redis.Batch
	b.Add("CONFIG", "GET", setting)
	have := ""
	err := client.DoAt(ctx, node, &b)
	if err == nil {
		err = b.Reply(0).EachPair(func(_, value []byte) { have = string(value) })
	}
	if err != nil {
		return fmt.Errorf("cannot ask whether the server sends keyspace notifications (%w); if it does not, changes are noticed at the next reload only", err)
	}
	missing := missing(have)
	switch {
	case missing == "":
		return nil
	case !set:
		return fmt.Errorf("%s is %q and lacks %q: changes are noticed at the next reload only; use CONFIG SET %s %q, or set-notify: true", setting, have, missing, setting, have+missing)
	}
	b.Reset()
	b.Add("CONFIG", "SET", setting, have+missing)
	if err := client.DoAt(ctx, node, &b); err != nil {
		return fmt.Errorf("set %s to %q: %w; changes are noticed at the next reload only", setting, have+missing, err)
	}
	return nil
}

// missing returns the flags in wanted that flags lacks; A means all except K and E.
func missing(flags string) string {
	var m []rune
	for _, f := range wanted {
		if !strings.ContainsRune(flags, f) && (f == 'K' || !strings.Contains(flags, "A")) {
			m = append(m, f)
		}
	}
	return string(m)
}

// Escape returns the pattern that matches only s.
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
