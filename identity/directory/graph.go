//go:build !small

package directory

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"
)

const (
	maxNodes   = 50_000  // groups that are remembered
	maxEdges   = 500_000 // members of them
	pageSize   = 500     // groups in an answer
	graphFresh = 30 * time.Second
	graphOld   = 2 * time.Minute // after this a look-up waits for a newer one
	graphAgain = 10 * time.Minute
)

// A graph says which group is in which. It never changes.
type graph struct {
	names []string // cn of each group
	// above has the groups that an entry is in, by its name (see canonical), and
	// each group itself by its name behind "=" and by its SID behind "#".
	above map[string][]int32
	entry []string           // of each group, canonical
	byUID map[string][]int32 // groups that name users by uid (memberUid)
}

// graphs holds the graph in use.
type graphs struct {
	mu     sync.Mutex
	now    *graph
	taken  time.Time
	busy   bool
	never  time.Time     // until when none is asked for: there are too many groups
	filled chan struct{} // closed when the one under way is there
}

// canonical makes one text of the ways in which a name of an entry is written:
// the case of letters, blanks behind commas, and escapes (RFC 4514, 2.4), of which
// only those stay that are necessary.
func canonical(dn string) string {
	if !strings.Contains(dn, ", ") && !strings.Contains(dn, `\`) {
		return lower(dn)
	}
	b := make([]byte, 0, len(dn))
	begins, separated := false, false // behind the = of an attribute, and behind a comma between parts
	named := false                    // the attribute's = has come
	blank := -1                       // where a blank is escaped that may end a value
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

// lower is s in lower case. Bytes that are not UTF-8 stay as they are: strings.ToLower
// would replace them all by the same character.
func lower(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	return strings.ToLower(s)
}

// primary returns the SID of the primary group of a user of Active Directory, nil
// for none: the number in its entry takes the place of the last one in its own SID
// ([MS-DTYP] 2.4.2.2). No other attribute says that the user is in this group.
func primary(e *ldap.Entry) []byte {
	sid := e.GetRawAttributeValue("objectSid")
	n, err := strconv.ParseUint(e.GetAttributeValue("primaryGroupID"), 10, 32)
	if err != nil || len(sid) < 12 {
		return nil
	}
	return binary.LittleEndian.AppendUint32(append([]byte(nil), sid[:len(sid)-4]...), uint32(n))
}

// of returns the names of the groups that a user is in, also by other groups.
func (g *graph) of(e *ldap.Entry, user string) (names []string) {
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
		if g.names[n] != "" {
			names = append(names, g.names[n])
		}
		todo = append(todo, g.above[g.entry[n]]...)
	}
	return names
}

// byEntry returns the group with a name.
func (g *graph) byEntry(dn string) []int32 {
	return g.above["="+canonical(dn)]
}

// graphOf returns the graph, nil where there are too many groups for one or the
// directory does not tell. It is asked for on c, or for the next one beside it.
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
		<-filled // no longer than the directory's timeout
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	}
	s.busy, s.filled = true, make(chan struct{})
	g := s.now
	s.mu.Unlock()
	if g != nil && age < graphOld {
		go func() { // ends with the directory's timeout
			c, err := d.connect(context.Background(), c.server, true)
			if err != nil {
				s.put(nil, true)
				return
			}
			defer c.Close()
			s.put(d.readGraph(c))
		}()
		return g
	}
	s.put(d.readGraph(c))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// put takes a graph into use. Without one the old one stays where more are to be
// had later.
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

// readGraph asks for all groups. later says that it may work another time.
func (d *Directory) readGraph(c *conn) (g *graph, later bool) {
	attributes := []string{"cn", "objectSid", "memberOf", "member", "uniqueMember", "memberUid"}
	if d.cfg.ActiveDirectory { // it names the groups in each entry, and gives members in parts
		attributes = attributes[:3]
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
	g = &graph{above: map[string][]int32{}, byUID: map[string][]int32{}}
	edges := 0
	for i, e := range res.Entries {
		dn := canonical(e.DN)
		g.names, g.entry = append(g.names, e.GetAttributeValue("cn")), append(g.entry, dn)
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
