package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/fleet/bundle"
	"shuultuur/identity/session"
	"shuultuur/lib/clock"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy/decision"
	"shuultuur/policy/pause"
	"shuultuur/state"
)

// Topics of instructions to all nodes, besides those of packages pause, decision
// and session.
const (
	versionTopic  = "version"  // the version of a fetched list in use: the key is the list
	settingsTopic = "settings" // read the settings again
	entryTopic    = "entry"    // a change to a list: the key is list, category and entry
	forgetTopic   = "forget"   // a counter was erased: the key is its name
	votersTopic   = "voters"   // votes were erased: the value is the person, encrypted
	purgeTopic    = "purge"    // stored objects must not be used: the key is kind and value
)

// purgeFor is how long a purge is kept for nodes that are away: longer than most objects are
// stored.
const purgeFor = 30 * 24 * time.Hour

// settingsFor is how long a change of settings is kept for nodes that are away. A node that was
// away for longer has probably been restarted.
const settingsFor = time.Hour

// forgetFor is how long the reset of a counter is kept for nodes that are away. Counters count
// one day.
const forgetFor = time.Hour

// send sends an instruction to the other nodes.
func (n *Node) send(i state.Instruction) {
	if err := n.Parts().State.Issue(i); err != nil {
		n.Log.Error("an instruction could not be sent to the other nodes", "topic", i.Topic, "key", i.Key, "error", err)
	}
}

// CarryOut carries out the instructions of other nodes.
func (n *Node) CarryOut(ctx context.Context, all []state.Instruction) error {
	reload := false
	var entries, sessions, counters, voters []state.Instruction
	for _, i := range all {
		switch i.Topic {
		case session.Topic:
			sessions = append(sessions, i)
		case pause.Topic:
			n.Parts().Pauses.Refresh()
		case decision.SiteTopic, decision.TimeTopic:
			n.Parts().Decisions.Refresh()
		case settingsTopic:
			if inTime(&i, settingsFor) {
				reload = true
			}
		case versionTopic:
			if i.Value != "" {
				n.Newer(i.Key, i.Value)
			}
		case entryTopic:
			entries = append(entries, i)
		case forgetTopic:
			if inTime(&i, forgetFor) {
				counters = append(counters, i)
			}
		case votersTopic:
			if inTime(&i, erasedFor) {
				voters = append(voters, i)
			}
		case purgeTopic:
			n.applyPurge(i)
		case bundle.OfferedTopic:
			n.Parts().Bundles.Wake()
		}
	}
	n.Parts().Sessions.Receive(sessions)
	err := errors.Join(n.applyEntries(ctx, entries), n.forget(ctx, counters), n.eraseVotes(ctx, voters))
	if reload && ctx.Err() == nil {
		n.ReloadAndLog(ctx, "another node has new settings")
	}
	return err
}

// inTime reports whether an instruction that counts for a while still does. It ends by the clock of the
// node that gave it. If that is before it was given, that clock is wrong; its place in the order of all is
// right even then, because a node gives one later than all that it knows of.
func inTime(i *state.Instruction, long time.Duration) bool {
	now, given := time.Now(), time.UnixMilli(i.At)
	return i.Until.After(now) || i.Until.Before(given.Add(-clock.Tolerance)) && given.Add(long).After(now)
}

// Purge removes objects of a kind from the caches of all nodes.
func (n *Node) Purge(kind, value string, at time.Time, by netip.Addr) error {
	c := n.Parts().Cache
	if c == nil {
		return ErrNoCache
	}
	n.Log.Info("purged from the cache", "kind", kind, "value", value, "by", by)
	if err := c.Purge(kind, value); err != nil {
		return err
	}
	n.send(state.Instruction{Topic: purgeTopic, Key: kind + " " + value, Value: at.UTC().Format(time.RFC3339Nano), Until: at.Add(purgeFor), By: by.String()})
	return nil
}

// applyPurge purges the objects that another node has purged. It purges
// everything stored before this node learned of it, because clocks may differ. So it does not ask
// whether the purge has expired, either: its end is by the clock of the other node, which may be in 1970.
func (n *Node) applyPurge(i state.Instruction) {
	kind, value, _ := strings.Cut(i.Key, " ")
	c := n.Parts().Cache
	if c == nil || i.Value == "" {
		return
	}
	if err := c.Purge(kind, value); err != nil {
		n.Log.Error("the cache still has objects that another node has purged", "kind", kind, "value", value, "error", err)
		return
	}
	n.Log.Info("purged from the cache by another node", "kind", kind, "value", value)
}

// entries returns the changes to lists in instructions of other nodes. An entry
// may have instructions for several categories, and a later one for all of them
// overrides earlier ones. So instructions that were carried out before are
// repeated in the order of their versions.
func (n *Node) entries(given []state.Instruction) map[string][]list.Change {
	if len(given) == 0 {
		return nil
	}
	entry := func(i *state.Instruction) [2]string {
		part := strings.SplitN(i.Key, "\t", 3)
		return [2]string{part[0], part[len(part)-1]}
	}
	about := map[[2]string]bool{}
	for i := range given {
		about[entry(&given[i])] = true
	}
	all := n.Parts().State.InForce(entryTopic)
	all = slices.DeleteFunc(all, func(i state.Instruction) bool { return !about[entry(&i)] })
	slices.SortStableFunc(all, func(a, b state.Instruction) int { return cmp.Compare(a.At, b.At) })
	changes := map[string][]list.Change{}
	for i := range all {
		name := entry(&all[i])[0]
		var c list.Change
		if err := json.Unmarshal([]byte(all[i].Value), &c); err != nil {
			n.Log.Error("a change to a list from another node is not made", "list", name, "error", err)
			continue
		}
		changes[name] = append(changes[name], c)
	}
	return changes
}

// applyEntries makes changes to lists that another node has made. It skips lists that
// this node does not have, and changes that do not apply.
func (n *Node) applyEntries(ctx context.Context, given []state.Instruction) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	changes := n.entries(given)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		applied := map[string][]list.Change{name: changes[name]}
		err := n.Parts().Lists.Change(ctx, applied, func() error { return n.Reload(context.WithoutCancel(ctx)) })
		var bad *collection.BadChange
		switch {
		case errors.Is(err, collection.ErrNoList) || errors.As(err, &bad):
			n.Log.Warn("changes to a list from another node are not made", "list", name, "entries", len(changes[name]), "error", err)
		case err != nil:
			return fmt.Errorf("changes to list %q from another node: %w", name, err)
		default:
			n.Log.Info("list changed by another node", "list", name, "entries", len(changes[name]))
		}
	}
	return nil
}

// publish sends changes to lists to the other nodes.
func (n *Node) publish(changes map[string][]list.Change) error {
	var all []state.Instruction
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		for _, c := range changes[name] {
			value, err := json.Marshal(c)
			if err != nil {
				return err
			}
			all = append(all, state.Instruction{Topic: entryTopic, Key: name + "\t" + c.Category + "\t" + c.Entry, Value: string(value)})
		}
	}
	return n.Parts().State.Issue(all...)
}
