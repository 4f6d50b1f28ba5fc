package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/identity/seal"
	"shuultuur/identity/session"
	"shuultuur/policy/decision"
	"shuultuur/policy/pause"
	"shuultuur/state"
)

// erasedFor is how long an erasure of votes is kept for nodes that are away.
const erasedFor = state.MaxBrief

// Erase withdraws the instructions about the person with these names and
// addresses, and erases the person's data on all nodes. It returns the number of
// instructions withdrawn here. With dry it only counts them.
func (n *Node) Erase(users []string, clients []netip.Addr, dry bool) (int64, error) {
	e := n.Parts()
	names := slices.Clone(users)
	for _, a := range clients {
		names = append(names, a.String())
	}
	for _, u := range users {
		names = append(names, strings.ToLower(u)) // names are owned in any case
	}
	var end []session.EndRequest
	for _, s := range e.Sessions.All() {
		if slices.Contains(clients, s.Addr) || slices.Contains(users, s.User) {
			end = append(end, session.EndRequest{Addr: s.Addr})
		}
	}
	topics := []string{pause.Topic, decision.SiteTopic, decision.TimeTopic, session.OwnTopic}
	if !dry {
		if _, err := e.Sessions.End(end...); err != nil {
			return 0, err
		}
		var give []state.Instruction
		for _, topic := range topics {
			for _, i := range e.State.InForce(topic) {
				if who, _, _ := strings.Cut(i.Key, "\t"); slices.Contains(names, who) {
					give = append(give, state.Instruction{Topic: i.Topic, Key: i.Key})
				}
			}
		}
		if err := e.State.Issue(give...); err != nil {
			return 0, err
		}
		e.Pauses.Refresh()
		e.Decisions.Refresh()
	}
	count, err := e.State.Erase(func(i *state.Instruction) bool {
		who, _, _ := strings.Cut(i.Key, "\t")
		return (i.Topic == session.Topic || slices.Contains(topics, i.Topic)) && slices.Contains(names, who) ||
			i.Topic == session.Topic && slices.ContainsFunc(end, func(o session.EndRequest) bool { return o.Addr.String() == i.Key })
	}, dry)
	return int64(count), err
}

// A sealedName holds the encrypted names of a person whose votes every node
// erases.
type sealedName struct {
	User   string     `json:"u,omitempty"`
	Client netip.Addr `json:"c,omitzero"`
}

// ErasePerson tells the other nodes to erase the votes of a person, as this node
// has done. Names are encrypted, also in files and in Redis, and only nodes with
// this node's key can read them.
func (n *Node) ErasePerson(users []string, clients []netip.Addr) error {
	var all []sealedName
	for _, u := range users {
		all = append(all, sealedName{User: u})
	}
	for _, c := range clients {
		all = append(all, sealedName{Client: c})
	}
	p := n.Parts()
	box, err := seal.New(p.Key, votersTopic)
	if err != nil {
		return err
	}
	var give []state.Instruction
	for _, name := range all {
		value, err := box.Seal(name)
		if err != nil {
			return err
		}
		// A random key, because one made from the name would reveal the person.
		give = append(give, state.Instruction{Topic: votersTopic, Key: rand.Text(), Value: value, Until: time.Now().Add(erasedFor), Brief: true})
	}
	if err := p.State.Issue(give...); err != nil {
		return fmt.Errorf("telling the other nodes whose votes to erase: %w", err)
	}
	return nil
}

// eraseVotes erases the votes of people who were erased on another node.
func (n *Node) eraseVotes(ctx context.Context, all []state.Instruction) error {
	if len(all) == 0 {
		return nil
	}
	p := n.Parts()
	box, err := seal.New(p.Key, votersTopic)
	if err != nil {
		return err
	}
	var users []string
	var clients []netip.Addr
	for _, i := range all {
		var name sealedName
		switch err := box.Open(i.Value, &name); {
		case err != nil:
			n.Log.Error("another node has erased a person's votes, and this one cannot read whose: erase them here too, and give both nodes the same secret.key", "error", err)
		case name.Client.IsValid():
			clients = append(clients, name.Client)
		case name.User != "":
			users = append(users, name.User)
		}
	}
	if p.EraseVotes == nil || len(users)+len(clients) == 0 {
		return nil
	}
	count, err := p.EraseVotes(ctx, users, clients)
	if err != nil {
		return fmt.Errorf("erasing votes by an instruction of another node: %w", err)
	}
	n.Log.Info("votes erased by an instruction of another node", "votes", count)
	return nil
}

// Forget resets counters on all nodes.
func (n *Node) Forget(ctx context.Context, keys [][16]byte) error {
	for _, k := range keys {
		n.send(state.Instruction{Topic: forgetTopic, Key: hex.EncodeToString(k[:]), Value: "forget", Until: time.Now().Add(forgetFor), Brief: true})
	}
	return n.Parts().State.Forget(ctx, keys...)
}

// forget resets counters that were reset on another node.
func (n *Node) forget(ctx context.Context, all []state.Instruction) error {
	var keys [][16]byte
	for _, i := range all {
		var k [16]byte
		if got, err := hex.Decode(k[:], []byte(i.Key[:min(len(i.Key), 32)])); err == nil && got == len(k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return n.Parts().State.Forget(ctx, keys...)
}
