package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/cache"
	"shuultuur/identity/session"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/policy/decision"
	"shuultuur/policy/pause"
	"shuultuur/state"
)

// A member is a node with what it was told to do.
type member struct {
	Node
	parts   Parts
	reloads []string // why
	newer   []string // lists, with their version
	erased  []string
	log     bytes.Buffer
}

// newMember returns a node whose instructions are in a store, with a list of games.
func newMember(t *testing.T, store state.Store) *member {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "games")
	if err := os.WriteFile(file, []byte("chess.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := &member{}
	log := slog.New(slog.NewTextHandler(&m.log, nil))
	cfg := collection.Config{"games": {Config: list.Config{Path: setting.Source(file), Category: "games", Format: list.Domains}}}
	open := func(ctx context.Context) (err error) {
		m.parts.Lists, err = collection.Open(ctx, cfg, dir, m.parts.Lists, log)
		return err
	}
	if err := open(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.parts.State, m.parts.Key = store, []byte("a key that all nodes of a fleet have")
	m.parts.Sessions, m.parts.Pauses, m.parts.Decisions = session.New(store, log), pause.New(store, log), decision.New(store)
	m.parts.EraseVotes = func(_ context.Context, users []string, clients []netip.Addr) (int64, error) {
		m.erased = append(m.erased, users...)
		for _, c := range clients {
			m.erased = append(m.erased, c.String())
		}
		return int64(len(users) + len(clients)), nil
	}
	m.Node = Node{
		Parts: func() Parts { return m.parts }, Reload: open, Log: log,
		ReloadAndLog: func(_ context.Context, why string) bool { m.reloads = append(m.reloads, why); return true },
		Newer:        func(list, version string) { m.newer = append(m.newer, list+" "+version) },
	}
	return m
}

func newStore(t *testing.T) *state.Memory {
	t.Helper()
	s, err := state.New(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// pair returns two nodes of a fleet.
func pair(t *testing.T) (a, b *member, store *state.Memory) {
	t.Helper()
	store = newStore(t)
	return newMember(t, store), newMember(t, store), store
}

// tell has a node carry out the instructions of topics.
func (m *member) tell(t *testing.T, topics ...string) {
	t.Helper()
	var all []state.Instruction
	for _, topic := range topics {
		all = append(all, m.parts.State.InForce(topic)...)
	}
	if err := m.CarryOut(t.Context(), all); err != nil {
		t.Errorf("carrying out %v: %v", all, err)
	}
}

// has reports whether the node's list of games has a host.
func (m *member) has(t *testing.T, host string) bool {
	t.Helper()
	hits, err := m.parts.Lists.Search(host)
	if err != nil {
		t.Fatal(err)
	}
	return len(hits) > 0
}

func TestAChangeOfAListReachesTheOtherNodes(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	if err := a.ChangeLists(t.Context(), map[string][]list.Change{"games": {{Entry: "go.example"}, {Entry: "chess.example", Remove: true}}}); err != nil {
		t.Fatal(err)
	}
	b.tell(t, entryTopic)
	for name, m := range map[string]*member{"this node": a, "the other": b} {
		if !m.has(t, "go.example") || m.has(t, "chess.example") {
			t.Errorf("%s has go.example %v, chess.example %v; want the first alone", name, m.has(t, "go.example"), m.has(t, "chess.example"))
		}
	}
	// The later word counts, also if both arrive at once.
	if err := a.ChangeLists(t.Context(), map[string][]list.Change{"games": {{Entry: "go.example", Remove: true}}}); err != nil {
		t.Fatal(err)
	}
	b.tell(t, entryTopic)
	if b.has(t, "go.example") {
		t.Error("the other node still has what was removed")
	}
}

func TestSixChangesOfAListAtOnce(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			if err := a.ChangeLists(t.Context(), map[string][]list.Change{"games": {{Entry: fmt.Sprintf("six-%d.example", i)}}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.tell(t, entryTopic)
	for i := range 6 {
		for name, m := range map[string]*member{"this node": a, "the other": b} {
			if host := fmt.Sprintf("six-%d.example", i); !m.has(t, host) {
				t.Errorf("%s has lost %s", name, host)
			}
		}
	}
}

func TestChangesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	a, b, store := pair(t)
	if err := a.ChangeLists(t.Context(), map[string][]list.Change{"none": {{Entry: "go.example"}}}); !errors.Is(err, collection.ErrNoList) {
		t.Errorf("a list that is not there: %v", err)
	}
	if all := store.InForce(entryTopic); len(all) != 0 {
		t.Errorf("a change that was not made is sent: %v", all)
	}
	for key, value := range map[string]string{"none\tgames\tx.example": `{"Entry":"x.example"}`, "games\tgames\ty.example": "{", "games\tgames\t": `{"Entry":""}`, "games\tgames\tz.example": `{"Entry":"z.example"}`} {
		if err := store.Issue(state.Instruction{Topic: entryTopic, Key: key, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.CarryOut(t.Context(), nil); err != nil {
		t.Errorf("nothing to carry out: %v", err)
	}
	b.tell(t, entryTopic)
	if b.has(t, "y.example") || b.has(t, "x.example") {
		t.Error("a change that cannot be read is made")
	}
	for _, want := range []string{"list=none", "list=games"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log does not name %s:\n%s", want, &b.log)
		}
	}
	failed := errors.New("the disk is full")
	b.Reload = func(context.Context) error { return failed }
	if err := b.CarryOut(t.Context(), only(store.InForce(entryTopic), "z.example")); !errors.Is(err, failed) && !strings.Contains(b.log.String(), "games") {
		t.Errorf("a change that cannot be used: %v", err)
	}
}

// only returns the instructions whose key ends with suffix.
func only(all []state.Instruction, suffix string) []state.Instruction {
	return slices.DeleteFunc(all, func(i state.Instruction) bool { return !strings.HasSuffix(i.Key, suffix) })
}

func TestNewVersionsAndSettingsMakeANodeReload(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	a.Fetched("games", "2")
	a.Fetched("other", "same")
	a.Changed("revision 7")
	b.tell(t, versionTopic, settingsTopic)
	slices.Sort(b.newer)
	if want := []string{"games 2", "other same"}; !slices.Equal(b.newer, want) {
		t.Errorf("the versions asked for are %q, want %q", b.newer, want)
	}
	if len(b.reloads) != 1 || b.reloads[0] != "another node has new settings" {
		t.Errorf("the node reloads for %q, want once for the settings; lists are put into use when they are there", b.reloads)
	}
	b.reloads = nil
	if err := b.CarryOut(t.Context(), []state.Instruction{{Topic: settingsTopic, Value: "7", Until: time.Now().Add(-time.Second)}, {Topic: versionTopic, Key: "games"}, {Topic: "of a later version", Value: "x"}}); err != nil || len(b.reloads) != 0 {
		t.Errorf("what is over, withdrawn or unknown makes the node reload for %q, %v", b.reloads, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := b.CarryOut(ended, a.parts.State.InForce(settingsTopic)); err != nil || len(b.reloads) != 0 {
		t.Errorf("a node that ends reloads for %q, %v", b.reloads, err)
	}
}

func TestPausesAndDecisionsAreTakenOver(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	now := time.Now()
	if _, err := a.parts.Pauses.Set("10.0.0.1", now.Add(time.Hour), now, "anna"); err != nil {
		t.Fatal(err)
	}
	if err := a.parts.Decisions.Rule(policy.Decision{Who: "ben", Site: "chess.example", Block: true}, false, "anna"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.parts.Decisions.GiveTime("ben", 30, now, "anna"); err != nil {
		t.Fatal(err)
	}
	if n := len(b.parts.Pauses.At(now)); n != 0 {
		t.Fatalf("the other node has %d pauses before it is told", n)
	}
	b.tell(t, pause.Topic, decision.SiteTopic, decision.TimeTopic)
	if n, sites, given := len(b.parts.Pauses.At(now)), b.parts.Decisions.Sites(now), b.parts.Decisions.Bonuses(now); n != 1 || len(sites) != 1 || len(given) != 1 || given[0].Minutes != 30 {
		t.Errorf("the other node has %d pauses, decisions %v, times %v; want one of each", n, sites, given)
	}
}

func TestAnErasureLeavesNothingOfAPersonOnAnyNode(t *testing.T) {
	t.Parallel()
	a, b, store := pair(t)
	now := time.Now()
	addr, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for user, at := range map[string]netip.Addr{"anna": addr, "ben": other} {
		if err := a.parts.Sessions.Start(session.Session{Addr: at, User: user, Until: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if err := a.parts.Decisions.Rule(policy.Decision{Who: user, Site: "chess.example"}, false, "admin"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.parts.Pauses.Set(user, now.Add(time.Hour), now, "admin"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.parts.Sessions.Own("Anna", "https://idp.example", "1"); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Erase([]string{"anna"}, nil, true); n < 2 || err != nil || len(a.parts.Sessions.All()) != 2 || len(a.parts.Decisions.Sites(now)) != 2 {
		t.Errorf("an erasure that only counts: %d, %v, and %d sessions remain", n, err, len(a.parts.Sessions.All()))
	}
	if n, err := a.Erase([]string{"anna"}, []netip.Addr{addr}, false); n < 2 || err != nil {
		t.Errorf("the erasure: %d, %v", n, err)
	}
	if all := a.parts.Sessions.All(); len(all) != 1 || all[0].User != "ben" {
		t.Errorf("the sessions are %v, want that of ben", all)
	}
	if sites := a.parts.Decisions.Sites(now); len(sites) != 1 || sites[0].Who != "ben" || len(a.parts.Pauses.At(now)) != 1 {
		t.Errorf("decisions about %v remain, and %d pauses", sites, len(a.parts.Pauses.At(now)))
	}
	for _, topic := range []string{session.Topic, session.OwnTopic, pause.Topic, decision.SiteTopic} {
		for _, i := range store.InForce(topic) {
			if strings.Contains(i.Key+i.Value, "anna") || strings.Contains(i.Key, addr.String()) {
				t.Errorf("the instruction %v remains", i)
			}
		}
	}
	if n, err := b.Erase(nil, nil, false); n != 0 || err != nil {
		t.Errorf("an erasure of nobody: %d, %v", n, err)
	}
}

func TestVotesAreErasedOnTheOtherNodesWithoutNamingThePerson(t *testing.T) {
	t.Parallel()
	a, b, store := pair(t)
	if err := a.ErasePerson([]string{"anna"}, []netip.Addr{netip.MustParseAddr("10.0.0.1")}); err != nil {
		t.Fatal(err)
	}
	all := store.InForce(votersTopic)
	for _, i := range all {
		if strings.Contains(i.Key+i.Value, "anna") || strings.Contains(i.Key+i.Value, "10.0.0.1") {
			t.Errorf("the instruction names the person: %v", i)
		}
	}
	b.tell(t, votersTopic)
	slices.Sort(b.erased)
	if want := []string{"10.0.0.1", "anna"}; !slices.Equal(b.erased, want) {
		t.Errorf("votes of %q are erased, want %q", b.erased, want)
	}
	stranger := newMember(t, store)
	stranger.parts.Key = []byte("a key that no other node of it has")
	stranger.tell(t, votersTopic)
	if len(stranger.erased) != 0 || !strings.Contains(stranger.log.String(), "secret.key") {
		t.Errorf("a node with another key erases %q, and says\n%s", stranger.erased, &stranger.log)
	}
	b.erased = nil
	for i := range all {
		all[i].Until = time.Now().Add(-time.Second)
	}
	if err := b.CarryOut(t.Context(), all); err != nil || len(b.erased) != 0 {
		t.Errorf("what is over erases votes of %q, %v", b.erased, err)
	}
	b.parts.EraseVotes = nil // it has none
	b.tell(t, votersTopic)
	failed := errors.New("the database is locked")
	b.parts.EraseVotes = func(context.Context, []string, []netip.Addr) (int64, error) { return 0, failed }
	if err := b.CarryOut(t.Context(), store.InForce(votersTopic)); !errors.Is(err, failed) {
		t.Errorf("votes that cannot be erased: %v, want the reason, so that it is tried again", err)
	}
}

func TestCountersAreResetOnAllNodes(t *testing.T) {
	t.Parallel()
	a, b := newMember(t, newStore(t)), newMember(t, newStore(t))
	key := [16]byte{1, 2, 3}
	count := func(m *member, add int64) int64 {
		all := []state.Count{{Key: key, Until: time.Now().Add(time.Hour), Add: add}}
		m.parts.State.Count(t.Context(), all)
		return all[0].Sum
	}
	for _, m := range []*member{a, b} {
		count(m, 5)
	}
	if err := a.Forget(t.Context(), [][16]byte{key}); err != nil {
		t.Fatal(err)
	}
	sent := a.parts.State.InForce(forgetTopic)
	wrong := []state.Instruction{{Topic: forgetTopic, Key: "no number", Value: "forget", Until: time.Now().Add(time.Hour)}, {Topic: forgetTopic, Key: "01", Value: "forget", Until: time.Now().Add(time.Hour)}}
	if err := b.CarryOut(t.Context(), wrong); err != nil || count(b, 0) != 5 {
		t.Errorf("keys that are none: %v, the counter holds %d", err, count(b, 0))
	}
	if err := b.CarryOut(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	if x, y := count(a, 0), count(b, 0); x != 0 || y != 0 {
		t.Errorf("the counters hold %d and %d, want 0", x, y)
	}
}

func TestAPurgeNeedsACacheAndReachesTheOtherNodes(t *testing.T) {
	t.Parallel()
	a, b, store := pair(t)
	by := netip.MustParseAddr("10.0.0.1")
	if err := a.Purge("tag", "news", time.Now(), by); !errors.Is(err, ErrNoCache) {
		t.Errorf("without a cache: %v", err)
	}
	for _, m := range []*member{a, b} {
		c, err := cache.New(cache.Config{}, cache.Parts{Data: t.TempDir(), Log: m.Log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		m.parts.Cache = c
	}
	if err := a.Purge("tag", "news", time.Now(), by); err != nil {
		t.Fatal(err)
	}
	if all := store.InForce(purgeTopic); len(all) != 1 || all[0].Key != "tag news" || all[0].By != by.String() {
		t.Errorf("the instructions are %v, want one for the tag", all)
	}
	b.tell(t, purgeTopic)
	if log := b.log.String(); !strings.Contains(log, "purged from the cache by another node") || !strings.Contains(log, "value=news") {
		t.Errorf("the other node says\n%s", log)
	}
	b.log.Reset()
	if err := b.CarryOut(t.Context(), []state.Instruction{{Topic: purgeTopic, Key: "tag withdrawn", Until: time.Now().Add(time.Hour)}}); err != nil || b.log.Len() > 0 {
		t.Errorf("what is withdrawn: %v\n%s", err, &b.log)
	}
	if err := b.CarryOut(t.Context(), []state.Instruction{{Topic: purgeTopic, Key: "nonsense x", Value: "x", Until: time.Now().Add(time.Hour)}}); err != nil || !strings.Contains(b.log.String(), "ERROR") {
		t.Errorf("a kind that is unknown: %v\n%s", err, &b.log)
	}
}

// TestANodeWithAWrongClockIsHeard: its instructions end by its own clock, in 1970, and have their order
// from the other nodes.
func TestANodeWithAWrongClockIsHeard(t *testing.T) {
	t.Parallel()
	_, b, _ := pair(t)
	c, err := cache.New(cache.Config{}, cache.Parts{Data: t.TempDir(), Log: b.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	b.parts.Cache = c
	end, now := time.Unix(0, 0).Add(time.Hour), time.Now().UnixMilli()
	if err := b.CarryOut(t.Context(), []state.Instruction{{Topic: purgeTopic, Key: "tag news", Value: "x", Until: end, At: now}, {Topic: settingsTopic, Value: "7", Until: end, At: now}}); err != nil {
		t.Fatal(err)
	}
	if log := b.log.String(); !strings.Contains(log, "purged from the cache by another node") {
		t.Errorf("the purge is not carried out:\n%s", log)
	}
	if len(b.reloads) != 1 {
		t.Errorf("%d reloads, want one for the settings", len(b.reloads))
	}
}
