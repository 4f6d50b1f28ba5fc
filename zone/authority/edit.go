//go:build !small

package authority

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/zone"
	"shuultuur/zone/redins"
)

// An Editor reads and changes the sources of zones: files, and values in Redis.
type Editor struct{ zones *Authority }

// Editor returns an editor of the zones' sources.
func (a *Authority) Editor() Editor { return Editor{a} }

// An Edit is a change of one record of a zone's source.
type Edit struct {
	Before, After []byte   // the source
	Name, Type    string   // of the record, fully qualified
	Record        *Record  // as it will be; nil: it is deleted
	Warnings      []string // that the zone does not have now
}

// ErrByHand reports that a record is written in a way that only its author should change.
var ErrByHand = errors.New("this record is written in a way that the form cannot change: change it in the text of the zone")

// ErrNoRecord reports that the zone does not have the record, or no longer has it.
var ErrNoRecord = errors.New("the zone does not have this record; read the zone again")

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:12])
}

// source reads the source of a zone that can be edited, and its records.
func (a Editor) source(ctx context.Context, origin, view string) (text []byte, z *zone.Zone, path string, err error) {
	if text, err = a.zones.Text(ctx, origin, view); err != nil {
		return nil, nil, "", err
	}
	_, path = a.zones.sourceOf(origin, view)
	z, err = a.parse(origin, path, text)
	return text, z, path, err
}

// parse reads the text of a zone: of the file at path, or of the values in Redis without one.
func (a Editor) parse(origin, path string, text []byte) (*zone.Zone, error) {
	if path == "" {
		return redins.Parse(a.zones.redis, origin, text)
	}
	return zone.Read(bytes.NewReader(text), origin, path)
}

// EditableRecords returns the records in the source of a zone, at most most of those that match, after
// so many: query is part of a name, or a type. all counts those that match.
func (a Editor) EditableRecords(ctx context.Context, origin, view, query string, after, most int) (some []Record, all int, err error) {
	origin = zone.Canonical(origin)
	_, z, _, err := a.source(ctx, origin, view)
	if err != nil {
		return nil, 0, err
	}
	query = strings.ToLower(strings.TrimSpace(query))
	for _, rr := range z.Records {
		h := rr.Header()
		if query != "" && !strings.EqualFold(query, miekg.Type(h.Rrtype).String()) && !strings.Contains(strings.ToLower(rr.String()), query) {
			continue
		}
		if all++; all > after && all <= after+most {
			some = append(some, record(rr, origin))
		}
	}
	return some, all, nil
}

// Find returns the record with an ID.
func (a Editor) Find(ctx context.Context, origin, view, id string) (*Record, error) {
	origin = zone.Canonical(origin)
	_, z, _, err := a.source(ctx, origin, view)
	if err != nil {
		return nil, err
	}
	i := find(z, id)
	if i < 0 {
		return nil, ErrNoRecord
	}
	r := record(z.Records[i], origin)
	return &r, nil
}

func find(z *zone.Zone, id string) int {
	return slices.IndexFunc(z.Records, func(rr miekg.RR) bool { return digest(rr.String()) == id })
}

// Edit prepares a change of one record: what is add, change or delete, id the record that is
// changed or deleted. get returns the entered text: "name", "type", "ttl", and the fields of the
// type or "data". Mistakes in it are [*FieldError]. Nothing is written; [Editor.Write] does.
func (a Editor) Edit(ctx context.Context, origin, view, what, id string, get func(string) string) (*Edit, error) {
	origin = zone.Canonical(origin)
	text, z, path, err := a.source(ctx, origin, view)
	if err != nil {
		return nil, err
	}
	e := &recordChange{origin: origin, path: path, records: z.Records}
	if what != "add" && what != "change" && what != "delete" {
		return nil, fmt.Errorf("what=%q is neither add, change nor delete", what)
	}
	if what != "add" {
		i := find(z, id)
		if i < 0 {
			return nil, ErrNoRecord
		}
		e.old = z.Records[i]
	}
	if what != "delete" {
		if e.fresh, err = parse(origin, get, e.ttl(get)); err != nil {
			return nil, err
		}
	}
	steps, err := e.steps()
	if err != nil {
		return nil, err
	}
	out := &Edit{Before: text, After: text}
	for i, s := range steps {
		if path == "" {
			out.After, err = redins.Edit(a.zones.redis, origin, out.After, s.old, s.fresh, i == 0)
		} else {
			out.After, err = editFile(out.After, origin, path, s.old, s.fresh, i == 0)
		}
		if err != nil {
			return nil, err
		}
	}
	about := e.old
	if e.fresh != nil {
		about = e.fresh
		r := record(e.fresh, origin)
		out.Record = &r
	}
	out.Name, out.Type = about.Header().Name, miekg.Type(about.Header().Rrtype).String()
	if err := a.Check(ctx, origin, view, out.After); err != nil {
		return nil, err
	}
	out.Warnings = a.warnings(origin, path, z, out.After)
	return out, nil
}

// warnings returns remarks on a text that did not apply to the zone before.
func (a Editor) warnings(origin, path string, before *zone.Zone, text []byte) (all []string) {
	z, err := a.parse(origin, path, text)
	if err != nil {
		return nil
	}
	known := map[string]bool{}
	for _, p := range zone.Check(before) {
		known[p.What] = true
	}
	for _, p := range zone.Check(z) {
		if !known[p.What] {
			all = append(all, p.What)
		}
	}
	return all
}

// A recordChange is a change of one record. One of old and fresh may be nil.
type recordChange struct {
	origin, path string
	records      []miekg.RR
	old, fresh   miekg.RR
}

// set returns the other records with a name and type.
func (e *recordChange) set(name string, typ uint16) (all []miekg.RR) {
	for _, rr := range e.records {
		if h := rr.Header(); rr != e.old && h.Rrtype == typ && zone.Canonical(h.Name) == name {
			all = append(all, rr)
		}
	}
	return all
}

// ttl returns the TTL for a record without one: that of the record it replaces, of other
// records with its name and type, or of the SOA record.
func (e *recordChange) ttl(get func(string) string) uint32 {
	if e.old != nil {
		return e.old.Header().Ttl
	}
	typ := miekg.StringToType[strings.ToUpper(strings.TrimSpace(get("type")))]
	if owner, err := ownerOf(strings.ToLower(strings.TrimSpace(get("name"))), e.origin); err == nil {
		if set := e.set(owner, typ); len(set) > 0 {
			return set[0].Header().Ttl
		}
	}
	for _, rr := range e.records {
		if h := rr.Header(); h.Rrtype == miekg.TypeSOA {
			return h.Ttl
		}
	}
	return 3600
}

// steps returns the changes to make: that of the record itself, and of the TTLs of those with
// the same name and type, which have the same (RFC 2181 section 5.2).
func (e *recordChange) steps() ([]recordChange, error) {
	all := []recordChange{*e}
	if e.old != nil && e.old.Header().Rrtype == miekg.TypeSOA && (e.fresh == nil || e.fresh.Header().Rrtype != miekg.TypeSOA || zone.Canonical(e.fresh.Header().Name) != e.origin) {
		return nil, errors.New("a zone keeps its SOA record")
	}
	if e.fresh == nil {
		return all, nil
	}
	h := e.fresh.Header()
	if h.Rrtype == miekg.TypeSOA && e.old == nil {
		return nil, wrong("type", "a zone has one SOA record: change it")
	}
	if e.old != nil && e.old.String() == e.fresh.String() {
		return nil, errors.New("nothing is changed")
	}
	fields := Fields(miekg.Type(h.Rrtype).String())
	for _, rr := range e.records {
		if rr == e.old || zone.Canonical(rr.Header().Name) != h.Name {
			continue
		}
		switch other := rr.Header().Rrtype; {
		case miekg.IsDuplicate(rr, e.fresh):
			return nil, wrong(fields[0].Name, "the zone has this record already")
		case other == miekg.TypeCNAME && h.Rrtype == miekg.TypeCNAME:
			return nil, wrong("name", "%s has a CNAME record already; it can have one", relative(h.Name, e.origin))
		case h.Rrtype == miekg.TypeCNAME && other != miekg.TypeDNSKEY, other == miekg.TypeCNAME && h.Rrtype != miekg.TypeDNSKEY:
			return nil, wrong("type", "%s has %s records: a name with a CNAME record has no others", relative(h.Name, e.origin), miekg.Type(other))
		}
	}
	for _, rr := range e.set(h.Name, h.Rrtype) {
		if rr.Header().Ttl != h.Ttl {
			same := miekg.Copy(rr)
			same.Header().Ttl = h.Ttl
			all = append(all, recordChange{old: rr, fresh: same})
		}
	}
	return all, nil
}

// editFile changes one record in the text of a zone file. All other lines stay, except that of
// the serial number when it is to be raised. It reads the result and compares it with the
// intended one.
func editFile(text []byte, origin, path string, old, fresh miekg.RR, raise bool) ([]byte, error) {
	z, err := zone.Read(bytes.NewReader(text), origin, path)
	if err != nil {
		return nil, err
	}
	f := newFileText(text, origin)
	want := slices.Clone(z.Records)
	at := -1
	if old != nil {
		if at = slices.IndexFunc(want, func(rr miekg.RR) bool { return rr.String() == old.String() }); at < 0 {
			return nil, ErrNoRecord
		}
	}
	if raise {
		if old != nil && old.Header().Rrtype == miekg.TypeSOA {
			if soa, was := fresh.(*miekg.SOA), old.(*miekg.SOA); soa.Serial == was.Serial {
				soa.Serial = nextSerial(was.Serial)
			}
		} else if err := f.raiseSerial(z, want, nil); err != nil {
			return nil, err
		}
	}
	entry := -1
	if at >= 0 {
		if entry = f.entry(z.Line(at)); entry < 0 || f.shared(z, at) {
			return nil, ErrByHand
		}
		want = slices.Delete(want, at, at+1)
	} else {
		for i, rr := range z.Records {
			if h := rr.Header(); h.Name == fresh.Header().Name && f.entry(z.Line(i)) >= 0 {
				entry = f.entry(z.Line(i))
			}
		}
	}
	if fresh != nil {
		want = append(want, fresh)
	}
	wanted := texts(&zone.Zone{Records: want})
	for _, ttl := range []bool{false, true} {
		out := f.withRecord(entry, old, fresh, ttl)
		got, err := zone.Read(bytes.NewReader(out), origin, path)
		if err == nil && slices.Equal(texts(got), wanted) {
			return out, nil
		}
	}
	return nil, ErrByHand
}

// nextSerial returns a serial number after n. One that is a date and a count of changes (RFC
// 1912 section 2.2) stays so.
func nextSerial(n uint32) uint32 {
	today, _ := strconv.ParseUint(time.Now().Format("20060102"), 10, 32)
	if day := uint64(n) / 100; day >= 19900101 && day < today {
		return uint32(today * 100)
	}
	return max(n+1, 1) // 0 after the largest
}

// A fileText is the text of a zone file by lines, and which of them are entries: records and
// directives, which may take several lines.
type fileText struct {
	lines   []string
	entries [][2]int // first line and the one after the last, from 0
	origin  string   // to which names are relative; "" when $ORIGIN changes it
}

func newFileText(text []byte, origin string) *fileText {
	f := &fileText{origin: origin, lines: strings.SplitAfter(string(text), "\n")}
	if f.lines[len(f.lines)-1] == "" {
		f.lines = f.lines[:len(f.lines)-1]
	} else {
		f.lines[len(f.lines)-1] += "\n"
	}
	begun, depth, quoted := -1, 0, false
	for i, line := range f.lines {
		some := scan(line, &depth, &quoted, nil)
		if begun < 0 && some {
			begun = i
		}
		if begun >= 0 && depth == 0 && !quoted {
			f.entries = append(f.entries, [2]int{begun, i + 1})
			begun = -1
		}
		if strings.HasPrefix(strings.ToUpper(line), "$ORIGIN") {
			f.origin = ""
		}
	}
	return f
}

// scan goes through a line, keeping strings and parentheses that continue in the next one. It
// reports whether there is more than blanks and a comment, and calls each with the place of
// each word.
func scan(line string, depth *int, inside *bool, each func(from, to int)) (some bool) {
	from := -1
	end := func(to int) {
		if from >= 0 && each != nil {
			each(from, to)
		}
		from = -1
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\':
			if from < 0 {
				from = i
			}
			some = true
			i++
		case c == '"':
			if from < 0 {
				from = i
			}
			some = true
			*inside = !*inside
		case *inside:
		case c == ';':
			end(i)
			return some
		case c == '(' || c == ')':
			end(i)
			some = true
			*depth = max(*depth+map[byte]int{'(': 1, ')': -1}[c], 0)
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			end(i)
		default:
			if from < 0 {
				from = i
			}
			some = true
		}
	}
	end(len(line))
	return some
}

// entry returns the index of the entry with a line, counted from 1; -1 for none.
func (f *fileText) entry(line int) int {
	i := sort.Search(len(f.entries), func(i int) bool { return line <= f.entries[i][1] })
	if i == len(f.entries) || line <= f.entries[i][0] {
		return -1
	}
	return i
}

// shared reports whether the entry of a record makes others, too.
func (f *fileText) shared(z *zone.Zone, at int) bool {
	entry := f.entry(z.Line(at))
	for i := range z.Records {
		if i != at && f.entry(z.Line(i)) == entry {
			return true
		}
	}
	return strings.HasPrefix(f.lines[f.entries[entry][0]], "$")
}

// raiseSerial raises the serial number in the text and in want. above is a number that it is to be
// greater than; nil for the one it has.
func (f *fileText) raiseSerial(z *zone.Zone, want []miekg.RR, above *uint32) error {
	at := slices.IndexFunc(z.Records, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA })
	if at < 0 {
		return errors.New("there is no SOA record")
	}
	soa := miekg.Copy(z.Records[at]).(*miekg.SOA)
	was := strconv.FormatUint(uint64(soa.Serial), 10)
	if above != nil {
		soa.Serial = *above
	}
	soa.Serial = nextSerial(soa.Serial)
	entry := f.entry(z.Line(at))
	if entry < 0 {
		return ErrByHand
	}
	words, done := -1, false
	depth, inside := 0, false
	for n := f.entries[entry][0]; n < f.entries[entry][1] && !done; n++ {
		line := f.lines[n]
		scan(line, &depth, &inside, func(from, to int) {
			switch word := line[from:to]; {
			case words < 0 && strings.EqualFold(word, "SOA"):
				words = 0
			case words >= 0:
				if words++; words == 3 && word == was {
					f.lines[n], done = line[:from]+strconv.FormatUint(uint64(soa.Serial), 10)+line[to:], true
				}
			}
		})
	}
	if !done {
		return ErrByHand
	}
	want[at] = soa
	return nil
}

// withRecord returns the text in which the record of an entry is replaced by fresh. Without old,
// fresh is added after the entry, or at the end for -1. ttl is whether the TTL is written.
func (f *fileText) withRecord(entry int, old, fresh miekg.RR, ttl bool) []byte {
	var written []string
	if fresh != nil {
		written = []string{f.line(fresh, ttl)}
	}
	lines := slices.Clone(f.lines)
	switch {
	case entry < 0:
		lines = append(lines, written...)
	case old == nil:
		end := f.entries[entry][1]
		lines = slices.Insert(lines, end, written...)
	default:
		e := f.entries[entry]
		first := lines[e[0]]
		if fresh != nil && e[1] == e[0]+1 {
			written[0] = strings.TrimSuffix(written[0], "\n") + comment(first) + "\n"
		}
		if entry+1 < len(f.entries) && (fresh == nil || fresh.Header().Name != old.Header().Name) && !blank(first[0]) {
			if next := f.entries[entry+1][0]; blank(lines[next][0]) { // has the name of the line before
				lines[next] = old.Header().Name + lines[next]
			}
		}
		lines = slices.Replace(lines, e[0], e[1], written...)
	}
	return []byte(strings.Join(lines, ""))
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// comment returns the comment at the end of a line, with the blanks before it.
func comment(line string) string {
	inside := false
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			inside = !inside
		case ';':
			if !inside {
				at := len(strings.TrimRight(line[:i], " \t"))
				return strings.TrimRight(line[at:], "\r\n")
			}
		}
	}
	return ""
}

// line writes a record.
func (f *fileText) line(rr miekg.RR, ttl bool) string {
	h := rr.Header()
	name := h.Name
	if f.origin != "" {
		name = relative(h.Name, f.origin)
	}
	if strings.HasPrefix(name, "$") {
		name = `\` + name // no directive
	}
	data := strings.TrimPrefix(rr.String(), h.String())
	if u, ok := rr.(*miekg.RFC3597); ok {
		data = fmt.Sprintf(`\# %d %s`, len(u.Rdata)/2, u.Rdata)
	}
	seconds := ""
	if ttl {
		seconds = strconv.FormatUint(uint64(h.Ttl), 10) + " "
	}
	return fmt.Sprintf("%s %s%s %s\n", name, seconds, miekg.Type(h.Rrtype), data)
}

// WithNewSerial returns a text of a zone with a serial number after the one that is served, so that
// an earlier text can be taken back.
func (a Editor) WithNewSerial(ctx context.Context, origin, view string, text []byte) ([]byte, error) {
	origin = zone.Canonical(origin)
	_, now, path, err := a.source(ctx, origin, view)
	if err != nil {
		now = &zone.Zone{}
	}
	last := serial(now)
	if s := a.zones.Served(origin, view); s != nil && int32(s.Info().Serial-last) > 0 && !a.zones.Signs(origin) {
		last = s.Info().Serial
	}
	if from, _ := a.zones.sourceOf(origin, view); from == fromRedis {
		return redins.Raise(text, last), nil
	}
	z, err := zone.Read(bytes.NewReader(text), origin, path)
	if err != nil {
		return nil, err
	}
	if int32(last-serial(z)) < 0 { // it is greater already (RFC 1982)
		return text, nil
	}
	f := newFileText(text, origin)
	if err := f.raiseSerial(z, z.Records, &last); err != nil {
		return nil, err
	}
	return []byte(strings.Join(f.lines, "")), nil
}

// Named returns the place in dns.zones.files of a zone whose file the settings name, else -1.
func (a Editor) Named(origin, view string) int {
	if from, path := a.zones.sourceOf(zone.Canonical(origin), view); from == fromFile {
		return a.zones.files.IndexOf(path)
	}
	return -1
}

// Delete deletes a zone whose source is the text that was read. One whose file the settings name is
// not deleted: named is then its place in them, else -1.
func (a Editor) Delete(ctx context.Context, origin, view string, was []byte) (named int, err error) {
	origin = zone.Canonical(origin)
	release, err := a.zones.lock(ctx)
	if err != nil {
		return -1, err
	}
	defer release()
	switch from, path := a.zones.sourceOf(origin, view); from {
	case fromFile:
		if named = a.zones.files.IndexOf(path); named >= 0 {
			return named, nil
		}
		if err := a.Unchanged(ctx, origin, view, was); err != nil {
			return -1, err
		}
		return -1, os.Remove(path)
	case fromRedis:
		return -1, redins.Delete(ctx, a.zones.redis, origin, was)
	}
	return -1, fmt.Errorf("%w in a file or in Redis: %s", ErrNoZone, origin)
}
