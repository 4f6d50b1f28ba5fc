package directory

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"

	"shuultuur/lib/wait"
)

const (
	maxNodes   = 50_000  // most groups that are kept
	maxEdges   = 500_000 // most members of them
	pageSize   = 500     // groups per answer
	graphFresh = 30 * time.Second
	graphOld   = 2 * time.Minute // a look-up waits for a new graph if the old one is older than this
	graphAgain = 10 * time.Minute

	lastAnswers = 5 * time.Second // how long groups being read are awaited at the end
)

// A graph holds the membership of groups in groups. It is immutable.
type graph struct {
	names [][]string // of each group
	// above holds the groups of an entry, by its canonical name. It also finds each
	// group by its name after "=" and by its SID after "#".
	above map[string][]int32
	entry []string           // canonical name of each group
	byUID map[string][]int32 // groups that list users by uid (memberUid)
	// shared has the entries of groups whose cn is not a name of any of them, by that cn in
	// lower case.
	shared map[string][]string
}

// graphs holds the current graph.
type graphs struct {
	mu     sync.Mutex
	now    *graph
	taken  time.Time
	busy   bool
	never  time.Time     // no graph is requested until then, because there are too many groups
	filled chan struct{} // closed when the requested graph has arrived
	reads  wait.Group    // in the background
}

// canonical returns one spelling for all spellings of an entry's name: it lowers
// letters, removes blanks after commas, and keeps only necessary escapes (RFC
// 4514, 2.4).
func canonical(dn string) string {
	if !strings.Contains(dn, ", ") && !strings.Contains(dn, `\`) {
		return lower(dn)
	}
	b := make([]byte, 0, len(dn))
	begins, separated := false, false // after the = of an attribute, and after a comma between parts
	named := false                    // the attribute's = was found
	blank := -1                       // position of an escaped blank that may be the last of a value
	end := func() {
		if blank >= 0 && blank == len(b)-1 {
			b = append(b[:blank], `\ `...)
		}
		blank = -1
	}
	for i := 0; i < len(dn); i++ {
		c := dn[i]
		switch {
		case c == ' ' && separated:
			continue
		case c == '\\' && i+1 < len(dn):
			i++
			c = dn[i]
			if i+1 < len(dn) {
				if pair, err := hex.DecodeString(dn[i : i+2]); err == nil {
					i++
					c = pair[0]
				}
			}
			if strings.IndexByte(`\,+"<>;`, c) >= 0 || (begins || separated) && (c == '#' || c == ' ') {
				b = append(b, '\\')
			} else if c == ' ' {
				blank = len(b)
			}
			begins, separated = false, false
		case c == ',' || c == '+':
			end()
			begins, separated, named = false, c == ',', false
		default:
			begins, separated = c == '=' && !named, false
			named = named || begins
		}
		b = append(b, c)
	}
	end()
	return lower(string(b))
}

// lower returns s in lower case and keeps bytes that are not UTF-8; strings.ToLower
// would replace each of them by the same character.
func lower(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	return strings.ToLower(s)
}

// primary returns the SID of the primary group of a user of Active Directory, or
// nil. It is the user's own SID with the group's number as the last part
// ([MS-DTYP] 2.4.2.2). No other attribute names this group.
func primary(e *ldap.Entry) []byte {
	sid := e.GetRawAttributeValue("objectSid")
	n, err := strconv.ParseUint(e.GetAttributeValue("primaryGroupID"), 10, 32)
	if err != nil || len(sid) < 12 {
		return nil
	}
	return binary.LittleEndian.AppendUint32(append([]byte(nil), sid[:len(sid)-4]...), uint32(n))
}

// groupsOf returns the names of the groups of a user, including those that contain
// the user's groups.
func (g *graph) groupsOf(e *ldap.Entry, user string) (names []string) {
	todo := append([]int32(nil), g.above[canonical(e.DN)]...)
	todo = append(todo, g.byUID[user]...)
	for _, m := range e.GetAttributeValues("memberOf") {
		todo = append(todo, g.byEntry(m)...)
	}
	if sid := primary(e); sid != nil {
		todo = append(todo, g.above["#"+string(sid)]...)
	}
	seen := map[int32]bool{}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		names = append(names, g.names[n]...)
		todo = append(todo, g.above[g.entry[n]]...)
	}
	return names
}

// namesOf returns the names by which policies know each group: its sAMAccountName, and its cn
// if no other group has that name. A group with neither is known by its DN alone: two groups of
// one cn in different units are two groups.
func namesOf(all []*ldap.Entry) [][]string {
	of := map[string]int{} // groups that have a name
	for _, e := range all {
		cn, account := e.GetAttributeValue("cn"), e.GetAttributeValue("sAMAccountName")
		of[lower(cn)]++
		if !strings.EqualFold(cn, account) {
			of[lower(account)]++
		}
	}
	names := make([][]string, len(all))
	for i, e := range all {
		cn, account := e.GetAttributeValue("cn"), e.GetAttributeValue("sAMAccountName")
		if account != "" {
			names[i] = append(names[i], account)
		}
		if cn != "" && cn != account && of[lower(cn)] == 1 {
			names[i] = append(names[i], cn)
		}
		if of[lower(cn)] > 1 {
			names[i] = append(names[i], canonical(e.DN))
		}
	}
	return names
}

// sharedNames returns the entries of groups with one cn, by that cn, unless it is the
// sAMAccountName of one of them.
func sharedNames(all []*ldap.Entry) map[string][]string {
	of, own := map[string][]string{}, map[string]bool{}
	for _, e := range all {
		if cn := lower(e.GetAttributeValue("cn")); cn != "" {
			of[cn] = append(of[cn], e.DN)
		}
		own[lower(e.GetAttributeValue("sAMAccountName"))] = true
	}
	maps.DeleteFunc(of, func(cn string, dns []string) bool { return len(dns) == 1 || own[cn] })
	return of
}

// An AmbiguousError says that several groups of the directory have a name.
type AmbiguousError struct {
	Name    string
	Entries []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("the directory has %d groups called %q, so none of them is known by that name: write the one that is meant, such as %q", len(e.Entries), e.Name, canonical(e.Entries[0]))
}

// Ambiguous asks the directory which of the names of groups several groups have. Groups that are
// too many to be read are not compared.
func (d *Directory) Ambiguous(ctx context.Context, names []string) (all []*AmbiguousError, err error) {
	if !d.Finds() {
		return nil, nil
	}
	err = d.withConn(ctx, d.search, func(c *conn) error {
		if g := d.graphOf(c); g != nil {
			all = g.ambiguous(names)
		}
		return nil
	})
	return all, err
}

// KnownAmbiguous is Ambiguous by what is known without asking.
func (d *Directory) KnownAmbiguous(names []string) []*AmbiguousError {
	d.graph.mu.Lock()
	g := d.graph.now
	d.graph.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.ambiguous(names)
}

func (g *graph) ambiguous(names []string) (all []*AmbiguousError) {
	for _, n := range names {
		if dns := g.shared[lower(n)]; len(dns) > 0 {
			all = append(all, &AmbiguousError{n, dns})
		}
	}
	return all
}

// byEntry returns the group with a name.
func (g *graph) byEntry(dn string) []int32 {
	return g.above["="+canonical(dn)]
}

// graphOf returns the graph, or nil if there are too many groups or the
// directory does not list them. It is read on c, or in the background if there
// is an older one.
func (d *Directory) graphOf(c *conn) *graph {
	s := &d.graph
	s.mu.Lock()
	now := time.Now()
	if now.Before(s.never) {
		s.mu.Unlock()
		return nil
	}
	age := now.Sub(s.taken)
	if s.now != nil && age < graphFresh {
		defer s.mu.Unlock()
		return s.now
	}
	if s.busy {
		g, filled := s.now, s.filled
		s.mu.Unlock()
		if g != nil && age < graphOld {
			return g
		}
		<-filled // at most for the directory's timeout
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}
	s.busy, s.filled = true, make(chan struct{})
	g := s.now
	s.mu.Unlock()
	if g != nil && age < graphOld {
		server := c.server
		s.reads.Go(func(ctx context.Context) {
			c, err := d.connect(ctx, server, true)
			if err != nil {
				s.put(nil, true)
				return
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			s.put(d.readGraph(c))
		})
		return g
	}
	s.put(d.readGraph(c))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// put makes g the current graph. If g is nil and later is true, the old graph
// stays in use.
func (s *graphs) put(g *graph, later bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	close(s.filled)
	switch {
	case g != nil:
		s.now, s.taken = g, time.Now()
	case !later:
		s.now, s.never = nil, time.Now().Add(graphAgain)
	}
}

// readGraph reads all groups. later reports that another attempt may succeed.
func (d *Directory) readGraph(c *conn) (g *graph, later bool) {
	attributes := []string{"cn", "sAMAccountName", "objectSid", "memberOf", "member", "uniqueMember", "memberUid"}
	if d.cfg.ActiveDirectory { // its entries have memberOf, and it returns long member lists in parts
		attributes = attributes[:4]
	}
	q := ldap.NewSearchRequest(d.cfg.Base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, int(d.timeout/time.Second), false,
		"(|(objectClass=group)(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)(objectClass=posixGroup))", attributes, nil)
	res, err := c.SearchWithPaging(q, pageSize)
	if err != nil {
		return nil, broken(err)
	}
	if len(res.Entries) > maxNodes {
		return nil, false
	}
	g = &graph{names: namesOf(res.Entries), shared: sharedNames(res.Entries), above: map[string][]int32{}, byUID: map[string][]int32{}}
	edges := 0
	for i, e := range res.Entries {
		dn := canonical(e.DN)
		g.entry = append(g.entry, dn)
		g.above["="+dn] = []int32{int32(i)}
		if sid := e.GetRawAttributeValue("objectSid"); len(sid) > 0 {
			g.above["#"+string(sid)] = g.above["="+dn]
		}
	}
	for i, e := range res.Entries {
		for _, m := range append(e.GetAttributeValues("member"), e.GetAttributeValues("uniqueMember")...) {
			m = canonical(m)
			g.above[m] = append(g.above[m], int32(i))
			edges++
		}
		for _, u := range e.GetAttributeValues("memberUid") {
			g.byUID[u] = append(g.byUID[u], int32(i))
			edges++
		}
		for _, above := range e.GetAttributeValues("memberOf") {
			g.above[g.entry[i]] = append(g.above[g.entry[i]], g.byEntry(above)...)
			edges++
		}
		if edges > maxEdges {
			return nil, false
		}
	}
	return g, false
}
