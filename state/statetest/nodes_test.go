package statetest_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/state"
	"shuultuur/state/statetest"
)

// A node is one of two that share a store, and passes its instructions on to the other.
type node struct {
	*state.Memory
	other *node

	mu   sync.Mutex
	open []state.Instruction // of the other node, not carried out yet
	wake chan struct{}
}

func (n *node) Issue(all ...state.Instruction) error {
	if err := n.Memory.Issue(all...); err != nil {
		return err
	}
	o := n.other
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = append(o.open, all...)
	o.signal()
	return nil
}

func (n *node) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *node) Follow(ctx context.Context, do func(context.Context, []state.Instruction) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		n.mu.Lock()
		all := slices.Clone(n.open)
		n.mu.Unlock()
		if do(ctx, all) != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				n.signal()
			}
			continue
		}
		n.mu.Lock()
		n.open = n.open[len(all):]
		n.mu.Unlock()
	}
}

// TestGoodNodesPass runs the suite for nodes on two that share a store.
func TestGoodNodesPass(t *testing.T) {
	statetest.RunNodes(t, func(t *testing.T, test func(*testing.T, statetest.Store, statetest.Store)) {
		synctest.Test(t, func(t *testing.T) {
			m, err := state.New(state.Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			a, b := &node{Memory: m, wake: make(chan struct{}, 1)}, &node{Memory: m, wake: make(chan struct{}, 1)}
			a.other, b.other = b, a
			test(t, a, b)
		})
	})
}
