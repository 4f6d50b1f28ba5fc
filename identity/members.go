package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/identity/directory"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait"
)

// A membership is what is known of the groups of a user. There are three states: the directory
// has given the groups, it has no such user, or it cannot be asked now. The third is not the
// second.
type membership struct {
	user    string   // as the directory spells it; "" if it does not
	groups  []string // sorted
	absent  bool     // the directory has no such user
	unknown error    // why the groups cannot be had
}

// members keeps the groups that a directory has for users.
type members struct {
	source directory.Finder
	turn   chan struct{} // holds one element for each query in progress
	asking wait.Group
	file   string // keeps the answers for the next start; "" for none
	digest string // of the settings that the answers depend on

	mu    sync.Mutex
	known map[string]*member
	saved time.Time // when the answers were last written
	due   bool      // newer ones are to be written

	closing chan struct{}
	reach   reach
}

type member struct {
	user   string   // as the directory spells it
	groups []string // sorted
	absent bool
	stamp  string // of the password, "" if the directory does not say
	off    bool   // the account is disabled
	asked  time.Time
	until  time.Time
	asking chan struct{} // closed when the query in progress is answered; nil if there is none
	since  time.Time     // when that query was sent
	err    error         // of the last query
}

const (
	// atMost is how long after a query requests wait for an answer that they can do
	// without. So a slow directory goes unnoticed.
	atMost = 250 * time.Millisecond
	// atMostNew is how long they wait for the first answer about a user, while the directory
	// is not known to be silent.
	atMostNew  = 3 * time.Second
	saveAfter  = time.Minute // answers are written at most this often
	maxAnswers = 64 << 20    // bytes of the file with answers
)

var errSlow = errors.New("the directory has not answered yet")

func newMembers(source directory.Finder) *members {
	return &members{source: source, turn: make(chan struct{}, maxAsking), known: map[string]*member{}, closing: make(chan struct{})}
}

// groupsOf returns the groups of a user. It waits for the directory, but not for long: for a
// user who is known atMost, for a new one atMostNew, and not at all when ctx is over.
func (m *members) groupsOf(ctx context.Context, user string) membership {
	m.mu.Lock()
	k, now := m.known[user], time.Now()
	if k != nil && now.Before(k.until) {
		defer m.mu.Unlock()
		return k.membership(now)
	}
	if k == nil {
		makeRoom(m.known, func(k *member) bool { return k.asking == nil && now.After(k.asked.Add(outage)) })
		k = &member{}
		m.known[user] = k
	}
	if k.asking == nil {
		k.asking, k.since = make(chan struct{}), now
		m.asking.Go(func(ctx context.Context) { m.ask(ctx, user, k) })
	}
	asking, patience, counts := k.asking, atMostNew, k.counts(now)
	if counts || m.reach.silent() {
		patience = atMost
	}
	left := k.since.Add(patience).Sub(now)
	m.mu.Unlock()
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-asking:
	case <-t.C:
		if !counts {
			m.reach.note(fmt.Errorf("it has not answered within %v", patience))
		}
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return k.membership(now)
}

// stampOf asks for the stamp of a user's password anew. It is "" if the directory does not say in time: one of
// before may be that of another password.
func (m *members) stampOf(user string) string {
	begun := time.Now()
	m.mu.Lock()
	if k := m.known[user]; k != nil && k.asking == nil {
		k.until = time.Time{}
	}
	m.mu.Unlock()
	m.groupsOf(context.Background(), user)
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.known[user]; k != nil && !k.asked.Before(begun) {
		return k.stamp
	}
	return ""
}

// stands reports whether a user is still there who has signed in while the password had a stamp, by the last
// answer of the directory.
func (m *members) stands(user, stamp string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known[user]
	return k == nil || k.asked.IsZero() || !k.absent && !k.off && (k.stamp == "" || stamp == "" || k.stamp == stamp)
}

// counts reports whether the last answer counts.
func (k *member) counts(now time.Time) bool {
	return !k.asked.IsZero() && now.Before(k.asked.Add(outage))
}

func (k *member) membership(now time.Time) membership {
	switch {
	case k.counts(now):
		return membership{user: k.user, groups: k.groups, absent: k.absent}
	case k.err != nil:
		return membership{unknown: k.err}
	}
	return membership{unknown: errSlow}
}

// ask queries the directory.
func (m *members) ask(ctx context.Context, user string, k *member) {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	found, err := m.source.Find(ctx, user)
	absent := errors.Is(err, directory.ErrRefused)
	if absent {
		found, err = directory.Found{}, nil
	}
	slices.Sort(found.Groups)
	if _, person := errors.AsType[*directory.PersonError](err); person {
		m.reach.note(nil) // it answers, though not about this person
	} else {
		m.reach.note(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if k.err = err; err == nil {
		k.user, k.groups, k.absent, k.asked, k.until = found.User, slices.Compact(found.Groups), absent, now, now.Add(verifiedFor)
		k.stamp, k.off = found.Stamp, found.Disabled
		m.save(now)
	} else if !k.asked.IsZero() {
		k.until = now.Add(again)
	} else {
		k.until = now.Add(time.Second) // a directory that refuses connections is not asked by each request
	}
	close(k.asking)
	k.asking = nil
}

// An answers is the content of the file with answers.
type answers struct {
	Digest string            `json:"directory"` // of the settings they depend on
	Users  map[string]answer `json:"users"`
}

type answer struct {
	User   string    `json:"user,omitempty"`
	Groups []string  `json:"groups,omitempty"`
	Absent bool      `json:"absent,omitempty"`
	Stamp  string    `json:"stamp,omitempty"`
	Off    bool      `json:"disabled,omitempty"`
	Asked  time.Time `json:"asked"`
}

// save writes the answers now, or when it is time. The caller holds the lock.
func (m *members) save(now time.Time) {
	if m.file == "" || m.due {
		return
	}
	m.due = true
	after := max(0, saveAfter-now.Sub(m.saved))
	m.asking.Go(func(ctx context.Context) {
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
			m.write()
		case <-m.closing: // close writes them
		case <-ctx.Done():
		}
	})
}

// write writes the answers that count. A failure costs the next start its answers, and is
// reported.
func (m *members) write() {
	m.mu.Lock()
	now := time.Now()
	a := answers{Digest: m.digest, Users: map[string]answer{}}
	for user, k := range m.known {
		if k.counts(now) {
			a.Users[user] = answer{k.user, k.groups, k.absent, k.stamp, k.off, k.asked}
		}
	}
	m.due, m.saved = false, now
	m.mu.Unlock()
	b, err := json.Marshal(a)
	if err == nil {
		err = atomicfile.WriteBytes(m.file, 0o600, b)
	}
	m.reach.noteFile(err)
}

// read reads the answers of the last run. Those of another directory do not count, nor do any
// from the future.
func (m *members) read() {
	info, err := os.Stat(m.file)
	if err != nil || info.Size() > maxAnswers {
		return
	}
	b, err := os.ReadFile(m.file)
	var a answers
	if err != nil || json.Unmarshal(b, &a) != nil || a.Digest != m.digest {
		return // they are asked for again
	}
	now := time.Now()
	for user, k := range a.Users {
		if n := (&member{user: k.User, groups: k.Groups, absent: k.Absent, stamp: k.Stamp, off: k.Off, asked: k.Asked}); n.counts(now) && !k.Asked.After(now) && len(m.known) < maxKnown {
			m.known[user] = n
		}
	}
}

// adopt takes over the answers of the members before, if they are of the same directory.
func (m *members) adopt(old *members) {
	if old.digest != m.digest {
		return
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	for user, k := range old.known {
		if !k.asked.IsZero() {
			m.known[user] = &member{user: k.user, groups: k.groups, absent: k.absent, stamp: k.stamp, off: k.off, asked: k.asked, until: k.until}
		}
	}
	m.saved = old.saved
}

// close waits for questions, and writes the answers that are not written yet.
func (m *members) close() {
	m.mu.Lock()
	due := m.due
	m.mu.Unlock()
	close(m.closing)
	m.asking.End(lastAnswers)
	if due {
		m.write()
	}
}

// keepAnswers takes over what directories have answered before: from the Identity before, or
// from the file of the last run.
func (id *Identity) keepAnswers(cfg Config, parts Parts) {
	m := id.members
	if m == nil {
		return
	}
	m.file = parts.Answers
	l := cfg.ldap()
	m.digest = setting.Digest([]any{l.Servers, l.Base, l.User, l.ActiveDirectory})
	switch old := parts.Previous; {
	case old != nil && old.members != nil:
		m.adopt(old.members)
	case old == nil && m.file != "":
		m.read()
	}
}

// ldap returns the settings of the directory that is asked for groups.
func (cfg *Config) ldap() *directory.LDAP {
	if k := cfg.Kerberos; k != nil && k.LDAP != nil {
		return k.LDAP
	}
	return cfg.Basic.LDAP
}

// A reach remembers whether a directory answers.
type reach struct {
	mu    sync.Mutex
	err   error     // of the last question; nil if it was answered
	since time.Time // when it began
	file  error     // why answers are not kept
}

// note remembers whether a question was answered.
func (r *reach) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && err != nil {
		r.since = time.Now()
	}
	r.err = err
}

func (r *reach) noteFile(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file = err
}

func (r *reach) silent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// problems says that the directory does not answer, and what follows from it.
func (r *reach) problems(what, effect string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		all = append(all, fmt.Sprintf("identity: %s has not answered since %s: %v; %s", what, r.since.Format("15:04:05"), r.err, effect))
	}
	if r.file != nil {
		all = append(all, fmt.Sprintf("identity: the answers of %s are not kept for the next start: %v", what, r.file))
	}
	return all
}

// AmbiguousGroups returns which of the names of groups several groups of the directory have. With
// ask it asks the directory; otherwise it says what is known. The settings may have groups of any
// name.
func (id *Identity) AmbiguousGroups(ctx context.Context, names []string, ask bool) (all []*directory.AmbiguousError, err error) {
	if id == nil || id.members == nil {
		return nil, nil
	}
	d, ok := id.members.source.(*directory.Directory)
	if !ok {
		return nil, nil
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return id.named[strings.ToLower(n)] })
	if !ask {
		return d.KnownAmbiguous(names), nil
	}
	return d.Ambiguous(ctx, names)
}

// Problems returns what the operator should look at: directories that do not answer.
func (id *Identity) Problems() (all []problem.Problem) {
	if id.members != nil {
		all = append(all, problem.Of(problem.Directory, id.members.reach.problems("the directory", "users whose groups are not known are judged by the policy for unknown groups")...)...)
	}
	if id.certificates != nil {
		all = append(all, problem.Of(problem.Certificate, id.certificates.problems(time.Now())...)...)
	}
	if id.kerberos != nil {
		if err := id.kerberos.acceptor.SeenTokens().Problem(); err != nil {
			all = append(all, problem.Problem{Kind: problem.Because(problem.Directory, err), Text: "identity: " + err.Error()})
		}
	}
	if id.basic != nil {
		all = append(all, problem.Of(problem.Directory, id.basic.reach.problems("the verifier of passwords", "passwords that are not known are answered with 503")...)...)
	}
	return all
}

// adopt takes over what the verifier before has found out, with the key under which it is
// kept: the passwords that the same directory or server has verified, and how often each
// address was wrong.
func (b *basic) adopt(old *basic) {
	old.mu.Lock()
	defer old.mu.Unlock()
	b.wrong = old.wrong
	if b.source == nil || old.digest != b.digest {
		return
	}
	b.key = old.key
	for sum, o := range old.known {
		if o.account != nil && o.account.hash == nil && b.accounts[o.account.name] == nil {
			b.known[sum] = o
		}
	}
}
