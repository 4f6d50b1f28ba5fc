// Package fleet exchanges instructions between the nodes of a fleet: changes of lists, purges
// of the cache, new settings, erasures, pauses, decisions and sign-ins. Counters and learned
// verdicts are shared by package state alone.
//
// Data moves as follows. A command to this node becomes an instruction, which [state.Store]
// stores and sends to the other nodes, even to those that are away at present. [Node.CarryOut]
// carries out the instructions of other nodes with the parts in use.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"shuultuur/cache"
	"shuultuur/fleet/bundle"
	"shuultuur/identity/session"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy/decision"
	"shuultuur/policy/pause"
	"shuultuur/state"
)

// Parts are the parts in use that instructions affect.
type Parts struct {
	State     state.Store
	Sessions  *session.Table
	Pauses    *pause.Keeper
	Decisions *decision.Keeper
	Lists     *collection.Collection
	Cache     *cache.Cache   // nil: nothing is stored
	Bundles   *bundle.Member // nil: it takes none
	Key       []byte         // of the data folder; equal on all nodes of a fleet
	// EraseVotes erases a person's votes on this node. It is nil if the node has
	// none.
	EraseVotes func(ctx context.Context, users []string, clients []netip.Addr) (int64, error)
}

// A Node is this gateway as a member of its fleet, or alone.
type Node struct {
	Parts        func() Parts
	Reload       func(context.Context) error                // rereads changed files
	ReloadAndLog func(ctx context.Context, why string) bool // does the same, and logs the reason
	Newer        func(list, version string)                 // hears which version of a list another node has
	Log          *slog.Logger

	changing sync.Mutex // held while lists change
}

// ErrNoCache reports that nothing can be purged.
var ErrNoCache = errors.New("the settings have no cache")

// Fetched tells the other nodes which version of a list is in use here.
func (n *Node) Fetched(list, version string) {
	n.send(state.Instruction{Topic: versionTopic, Key: list, Value: version})
}

// Changed tells the other nodes to read their settings again.
func (n *Node) Changed(revision string) {
	n.send(state.Instruction{Topic: settingsTopic, Value: revision, Until: time.Now().Add(settingsFor)})
}

// ChangeLists changes lists. The changes are in use when it returns.
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
