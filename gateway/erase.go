package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/admin"
	"shuultuur/event"
	"shuultuur/identity/session"
	"shuultuur/policy/pause"
	"shuultuur/policy/ruling"
	"shuultuur/state"
	"shuultuur/vote"
)

// holders are what has data about people, besides the audit log.
func (g *Gateway) holders() (all []admin.Holder) {
	r := g.engine.Load().events
	for _, s := range r.Stores {
		h := admin.Holder{Name: "events in " + s.Name()}
		if e, ok := s.(event.Eraser); ok {
			h.Erase = func(ctx context.Context, p event.Person) (int64, error) {
				if err := r.Written(ctx); err != nil {
					return 0, err
				}
				return e.Erase(ctx, p)
			}
		}
		all = append(all, h)
	}
	e := g.engine.Load()
	if v := e.votes; v != nil {
		all = append(all, admin.Holder{Name: "votes", Erase: func(ctx context.Context, p event.Person) (int64, error) {
			return v.Erase(ctx, voterOf(&p))
		}})
		if to := v.Elsewhere(); to != "" {
			all = append(all, admin.Holder{Name: "votes that were forwarded to " + to})
		}
	}
	if a := e.alerts; a != nil {
		all = append(all, admin.Holder{Name: "alerts", Erase: a.Desk.Erase})
	}
	all = append(all, admin.Holder{Name: "findings in pictures", Erase: func(_ context.Context, p event.Person) (int64, error) {
		return int64(g.pictures.Erase(p.Clients, p.Users)), nil
	}})
	return append(all, admin.Holder{Name: "sessions, pauses, decisions and time given", Erase: g.eraseTold}, admin.Holder{Name: "what is used of limits and quotas", Erase: g.eraseUsed})
}

// voterOf is a person as votes know one.
func voterOf(p *event.Person) *vote.Person {
	v := &vote.Person{Users: p.Users, Named: p.In}
	for _, a := range p.Clients {
		v.Clients = append(v.Clients, a.String())
	}
	return v
}

// erasedFor is how long nodes that are away learn that something was erased.
const erasedFor = state.MaxBrief

// eraseTold ends what all nodes were told about a person, and erases it on all.
func (g *Gateway) eraseTold(_ context.Context, p event.Person) (int64, error) {
	e := g.engine.Load()
	names := slices.Clone(p.Users)
	for _, a := range p.Clients {
		names = append(names, a.String())
	}
	var gone []string
	var end []netip.Addr
	for _, s := range e.sessions.All() {
		if slices.Contains(p.Clients, s.Addr) || slices.Contains(p.Users, s.User) {
			end = append(end, s.Addr)
		}
	}
	if _, err := e.sessions.End("", end...); err != nil {
		return 0, err
	}
	var give []state.Instruction
	for _, topic := range []string{pause.Topic, ruling.SiteTopic, ruling.TimeTopic} {
		for _, i := range e.state.InForce(topic) {
			if who, _, _ := strings.Cut(i.Key, "\t"); slices.Contains(names, who) {
				give = append(give, state.Instruction{Topic: i.Topic, Key: i.Key})
			}
		}
	}
	if err := e.state.Give(give...); err != nil {
		return 0, err
	}
	e.pauses.Refresh()
	e.rulings.Refresh()
	n, err := e.state.Erase(func(i *state.Instruction) bool {
		who, _, _ := strings.Cut(i.Key, "\t")
		named := slices.Contains([]string{session.Topic, pause.Topic, ruling.SiteTopic, ruling.TimeTopic}, i.Topic) && slices.Contains(names, who) ||
			i.Topic == session.Topic && slices.ContainsFunc(end, func(a netip.Addr) bool { return a.String() == i.Key })
		if named {
			gone = append(gone, erasedKey(i))
		}
		return named
	})
	for _, k := range gone {
		g.tell(state.Instruction{Topic: erasedTopic, Key: k, Value: "erased", Until: time.Now().Add(erasedFor), Brief: true})
	}
	return int64(n), err
}

// erasedKey names an instruction without saying whom it is about.
func erasedKey(i *state.Instruction) string {
	sum := sha256.Sum256([]byte(i.Topic + "\x00" + i.Key))
	return hex.EncodeToString(sum[:16])
}

// eraseUsed forgets what a person has used of limits and quotas, on all nodes.
func (g *Gateway) eraseUsed(ctx context.Context, p event.Person) (int64, error) {
	e := g.engine.Load()
	keys := e.policies.Counters(p.Users, p.Clients, time.Now())
	for _, k := range keys {
		g.tell(state.Instruction{Topic: forgetTopic, Key: hex.EncodeToString(k[:]), Value: "forget", Until: time.Now().Add(forgetFor), Brief: true})
	}
	return 0, e.state.Forget(ctx, keys...)
}

// erased carries out what another node has erased and had forgotten.
func (g *Gateway) erased(ctx context.Context, all []state.Instruction) error {
	s := g.engine.Load().state
	gone := map[string]bool{}
	var keys [][16]byte
	for _, i := range all {
		var k [16]byte
		switch n, err := hex.Decode(k[:], []byte(i.Key[:min(len(i.Key), 32)])); {
		case i.Topic == erasedTopic:
			gone[i.Key] = true
		case err == nil && n == len(k):
			keys = append(keys, k)
		}
	}
	if len(gone) > 0 {
		if _, err := s.Erase(func(i *state.Instruction) bool { return gone[erasedKey(i)] }); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return s.Forget(ctx, keys...)
}
