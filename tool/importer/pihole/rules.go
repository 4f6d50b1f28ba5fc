package pihole

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// rules decides about names as Pi-hole's FTL does, with the groups of the
// client: names it allows, expressions that allow, names it denies, allow lists,
// block lists, expressions that deny.
type rules struct {
	db       *sql.DB // nil if there are only the files of an export
	unpacked string  // a folder for the exported files of Teleporter
	exact    [2]map[string][]int64
	regexps  [2][]expression
	groups   map[int64]bool // those that are switched on
	clients  []asker
	tables   map[string]bool // gravity, and antigravity since version 6; an export has none
}

type expression struct {
	groups []int64
	text   string
	x      *regexp.Regexp
	invert bool
	types  []string
	not    bool
}

type asker struct {
	network netip.Prefix
	groups  []int64
}

func Rules(s *original.Source, path string) (original.Rules, error) {
	unpacked, err := os.MkdirTemp("", "shuultuur-import-")
	if err != nil {
		return nil, err
	}
	p := &rules{unpacked: unpacked, exact: [2]map[string][]int64{{}, {}}, groups: map[int64]bool{0: true}, tables: map[string]bool{}}
	if err := p.open(s, path); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// open reads a folder, gravity.db in it, or an export of Teleporter.
func (p *rules) open(s *original.Source, path string) error {
	path, more, err := unpackTeleporter(s.Ctx, path, p.unpacked)
	if more > 0 {
		s.Untested("%d files of the archive", more)
	}
	if err != nil {
		return err
	}
	dir, file := path, filepath.Join(path, "gravity.db")
	if input.IsFile(path) {
		dir, file = filepath.Dir(path), path
	}
	for i, t := range kinds {
		names := []string{t.file}
		for name, kind := range olderFiles {
			if kind == i {
				names = append(names, name)
			}
		}
		for _, name := range names {
			_ = s.LinesOf(filepath.Join(dir, name), func(_ int, line string) { // an export has only some of them
				if line[0] != '#' {
					p.add(s, i, line, []int64{0})
				}
			})
		}
	}
	if !input.IsFile(file) {
		return nil
	}
	p.db, err = sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	return p.read(s)
}

// Close closes gravity.db, and removes unpacked files.
func (p *rules) Close() error {
	err := os.RemoveAll(p.unpacked)
	if p.db != nil {
		err = errors.Join(err, p.db.Close())
	}
	return err
}

// read reads the small tables of gravity.db. The names of lists stay in the database.
func (p *rules) read(s *original.Source) error {
	ctx := s.Ctx
	err := eachRow(ctx, p.db, `SELECT id FROM "group" WHERE enabled = 0`, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		p.groups[id] = false
		return err
	})
	if err != nil {
		return err
	}
	if err := eachRow(ctx, p.db, `SELECT id FROM "group" WHERE enabled <> 0`, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		p.groups[id] = true
		return err
	}); err != nil {
		return err
	}
	in := func(table string) (map[int64][]int64, error) {
		of := map[int64][]int64{}
		err := eachRow(ctx, p.db, `SELECT `+table+`_id, group_id FROM `+table+`_by_group`, func(rows *sql.Rows) error {
			var id, group int64
			err := rows.Scan(&id, &group)
			of[id] = append(of[id], group)
			return err
		})
		return of, err
	}
	entries, err := in("domainlist")
	if err != nil {
		return err
	}
	if err := eachRow(ctx, p.db, `SELECT id, type, domain FROM domainlist WHERE enabled <> 0 AND type BETWEEN 0 AND 3 ORDER BY id`, func(rows *sql.Rows) error {
		var id int64
		var kind int
		var domain string
		err := rows.Scan(&id, &kind, &domain)
		p.add(s, kind, domain, entries[id])
		return err
	}); err != nil {
		return err
	}
	members, err := in("client")
	if err != nil {
		return err
	}
	for _, name := range []string{"gravity", "antigravity"} {
		p.tables[name] = p.db.QueryRowContext(ctx, `SELECT 1 FROM sqlite_master WHERE name = ?`, name).Scan(new(int)) == nil
	}
	if !p.tables["gravity"] {
		s.Untested("lists, of which an export has the addresses alone")
	}
	return eachRow(ctx, p.db, `SELECT id, ip FROM client`, func(rows *sql.Rows) error {
		var id int64
		var ip string
		err := rows.Scan(&id, &ip)
		n, bad := netip.ParsePrefix(ip)
		if a, failed := netip.ParseAddr(ip); failed == nil {
			n, bad = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if bad != nil {
			s.Untested("client %q has no address that identifies it", ip)
			return err
		}
		p.clients = append(p.clients, asker{n, members[id]})
		return err
	})
}

// add adds an entry of the administrator. kind is an index into kinds.
func (p *rules) add(s *original.Source, kind int, text string, groups []int64) {
	if kind < 2 {
		name := strings.ToLower(text)
		p.exact[kind][name] = append(p.exact[kind][name], groups...)
		return
	}
	parts := strings.Split(text, ";")
	e := expression{groups: groups, text: text}
	for _, o := range parts[1:] {
		key, value, _ := strings.Cut(strings.ToLower(o), "=")
		switch key {
		case "invert":
			e.invert = true
		case "querytype":
			value, e.not = strings.CutPrefix(value, "!")
			e.types = strings.Split(strings.ToUpper(value), ",")
		}
	}
	var err error
	if e.x, err = regexp.Compile("(?i)" + regexp.MustCompile(`\(\?#[^)]*\)`).ReplaceAllString(parts[0], "")); err != nil {
		s.Untested("expression %s: %v", text, err)
		return
	}
	p.regexps[kind-2] = append(p.regexps[kind-2], e)
}

// of returns the groups of a client, by its address or else by the smallest network.
func (p *rules) of(a netip.Addr) []int64 {
	groups, bits := []int64{0}, -1
	for _, c := range p.clients {
		if c.network.Contains(a) && c.network.Bits() > bits {
			groups, bits = c.groups, c.network.Bits()
		}
	}
	return slices.DeleteFunc(slices.Clone(groups), func(g int64) bool { return !p.groups[g] })
}

func (p *rules) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	if stage != filter.Name {
		return original.Decision{}, false
	}
	mine := p.of(t.Client.Addr)
	meets := func(groups []int64) bool {
		return slices.ContainsFunc(groups, func(g int64) bool { return slices.Contains(mine, g) })
	}
	search := func(kind int) string {
		for _, e := range p.regexps[kind] {
			typed := len(e.types) == 0 || slices.ContainsFunc(e.types, func(v string) bool {
				n, err := dns.Type(v)
				return err == nil && n == cmp.Or(t.Type, dns.TypeA)
			}) != e.not
			if typed && meets(e.groups) && e.x.MatchString(t.Host) != e.invert {
				return e.text
			}
		}
		return ""
	}
	if meets(p.exact[0][t.Host]) {
		return original.Decision{By: "allowed name"}, true
	}
	if x := search(0); x != "" {
		return original.Decision{By: "allowed expression " + x}, true
	}
	if meets(p.exact[1][t.Host]) {
		return original.Decision{Refuse: true, By: "denied name"}, true
	}
	for _, table := range []string{"antigravity", "gravity"} {
		list, err := p.listed(ctx, table, t.Host, mine)
		if err != nil {
			return original.Decision{By: "gravity.db: " + err.Error()}, true
		}
		if list != "" {
			return original.Decision{Refuse: table == "gravity", By: table + ", list " + list}, true
		}
	}
	x := search(1)
	return original.Decision{Refuse: x != "", By: cmp.Or(x, "nothing fits")}, true
}

// listed returns the list, used by some groups, that has a name or a rule for it.
func (p *rules) listed(ctx context.Context, table, name string, groups []int64) (list string, err error) {
	if p.db == nil || len(groups) == 0 || !p.tables[table] {
		return "", nil
	}
	var ids []string
	for _, g := range groups {
		ids = append(ids, strconv.FormatInt(g, 10))
	}
	names, marks := []any{name}, "?"
	mark := "||"
	if table == "antigravity" {
		mark = "@@||"
	}
	input.FirstParent(name, func(n string) bool {
		names, marks = append(names, mark+n+"^"), marks+",?"
		return false
	})
	err = p.db.QueryRowContext(ctx, fmt.Sprintf(`SELECT a.address FROM %s g JOIN adlist a ON a.id = g.adlist_id AND a.enabled <> 0
		JOIN adlist_by_group b ON b.adlist_id = a.id AND b.group_id IN (%s) WHERE g.domain IN (%s) LIMIT 1`, table, strings.Join(ids, ","), marks), names...).Scan(&list)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return list, err
}
