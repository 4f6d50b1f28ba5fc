// Package fleet is what the nodes of a fleet tell each other beside what they
// count and learn: changes of lists, purges of the cache, new settings, what is
// erased, and that somebody is paused, decided on or signed in.
//
// Data moves as follows. What somebody tells this node becomes an instruction, which
// [state.Store] keeps and hands to the other nodes, also to those that are away.
// [Node.Obey] carries out the instructions of others with the parts in use.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"shuultuur/cache"
	"shuultuur/identity/session"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy/pause"
	"shuultuur/policy/ruling"
	"shuultuur/state"
	"sync"
	"time"
)

// Parts are those in use that instructions concern.
type Parts struct {
	State    state.Store
	Sessions *session.Table
	Pauses   *pause.Keeper
	Rulings  *ruling.Keeper
	Lists    *collection.Collection
	Cache    *cache.Cache // nil: nothing is stored
	Key      []byte       // of the data folder; nodes of a fleet have the same
	// EraseVotes takes a person's votes out of what this node has; nil: it takes
	// none.
	EraseVotes func(ctx context.Context, users []string, clients []netip.Addr) (int64, error)
}

// A Node is this gateway among the nodes of its fleet, or alone.
type Node struct {
	Parts  func() Parts
	Reload func(context.Context) error                          // takes changed files into use
	Again  func(ctx context.Context, why string) bool           // the same, and says so in the log
	Newer  func(ctx context.Context, list, version string) bool // fetches a version of a list; says whether it is another one
	Log    *slog.Logger

	changing sync.Mutex // one change of lists at a time
}

// ErrNoCache reports that nothing can be purged.
var ErrNoCache = errors.New("the settings have no cache")

// Fetched tells the other nodes which version of a list is in use here.
func (n *Node) Fetched(list, version string) {
	n.tell(state.Instruction{Topic: versionTopic, Key: list, Value: version})
}

// Changed tells the other nodes to read their settings again.
func (n *Node) Changed(revision string) {
	n.tell(state.Instruction{Topic: settingsTopic, Value: revision, Until: time.Now().Add(settingsFor)})
}

// ChangeLists makes changes to lists and takes them into use before it returns.
func (n *Node) ChangeLists(ctx context.Context, changes map[string][]list.Change) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	err := n.Parts().Lists.Change(ctx, changes, func() error { return n.Reload(context.WithoutCancel(ctx)) })
	if err != nil {
		return err
	}
	if err := n.publish(changes); err != nil {
		return fmt.Errorf("the lists were changed on this node only: %w", err)
	}
	for name, list := range changes {
		n.Log.Info("list changed", "list", name, "entries", len(list))
	}
	return nil
}
