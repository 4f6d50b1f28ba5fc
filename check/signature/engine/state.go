package engine

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/atomicfile"
	"shuultuur/check/signature/rule"
)

// Limits of the state.
const (
	shards     = 64
	maxEntries = 1 << 14 // of thresholds and bits in a shard
	maxSet     = 1 << 20 // values that rules add to a dataset
	maxNames   = 4096    // bits and numbers of one connection
)

// A State is the memory of rules beyond one connection: thresholds, host bits and datasets. It
// outlives the rules: an engine made by a reload takes it over. It is safe for concurrent use.
type State struct {
	shard [shards]struct {
		sync.Mutex
		counts map[countKey]*count
		bits   map[bitKey]time.Time // expiry times
	}
	mu   sync.RWMutex
	sets map[string]*set

	delay   atomic.Int64 // time between a change of datasets and saving them; 0: they are not saved
	planned atomic.Bool  // a save is scheduled
	// Unsaved counts failed saves of datasets. They are repeated.
	Unsaved atomic.Int64

	Dir string // folder for relative names of saved datasets
}

// NewState returns an empty state.
func NewState() *State {
	s := &State{sets: map[string]*set{}}
	for i := range s.shard {
		s.shard[i].counts = map[countKey]*count{}
		s.shard[i].bits = map[bitKey]time.Time{}
	}
	return s
}

type countKey struct {
	gid, sid uint32
	kind     byte
	flow     *Flow
	a, b     netip.Addr
}

type count struct {
	start time.Time
	n     int
	next  int       // of backoff
	until time.Time // of rate_filter
	seen  map[uint16]struct{}
}

type bitKey struct {
	name string
	kind byte
	a, b netip.Addr
}

func hash(a, b netip.Addr, n uint32) int {
	h := n * multiplier
	x, y := a.As16(), b.As16()
	for i := range x {
		h = (h ^ uint32(x[i])) * 16777619
		h = (h ^ uint32(y[i])) * 16777619
	}
	return int(h >> 26 % shards)
}

// track returns the key of a threshold's count.
func track(gid, sid uint32, how string, kind byte, src, dst netip.Addr, f *Flow) countKey {
	k := countKey{gid: gid, sid: sid, kind: kind}
	switch how {
	case "by_src":
		k.a = src
	case "by_dst":
		k.b = dst
	case "by_both":
		k.a, k.b = src, dst
		if k.b.Less(k.a) {
			k.a, k.b = k.b, k.a
		}
	case "by_flow":
		k.flow = f
	}
	return k
}

// allow counts a match for a threshold and reports whether it alerts.
func (s *State) allow(t *rule.Threshold, k countKey, now time.Time, port uint16) bool {
	sh := &s.shard[hash(k.a, k.b, k.sid)]
	sh.Lock()
	defer sh.Unlock()
	c := sh.counts[k]
	window := time.Duration(t.Seconds) * time.Second
	if c == nil {
		if len(sh.counts) >= maxEntries {
			for old, v := range sh.counts { // delete a random one to make room
				delete(sh.counts, old)
				_ = v
				break
			}
		}
		c = &count{start: now}
		sh.counts[k] = c
	} else if t.Type != "backoff" && t.Type != "rate_filter" && now.Sub(c.start) >= window {
		*c = count{start: now}
	}
	if t.UniqueOn != "" {
		if c.seen == nil {
			c.seen = map[uint16]struct{}{}
		}
		if _, twice := c.seen[port]; !twice && len(c.seen) < 1<<16 {
			c.seen[port] = struct{}{}
			c.n++
		}
		return c.n > t.Count
	}
	c.n++
	switch t.Type {
	case "limit":
		return c.n <= t.Count
	case "threshold":
		if c.n >= t.Count {
			c.n = 0
			return true
		}
		return false
	case "both":
		return c.n == t.Count
	case "detection_filter":
		return c.n > t.Count
	case "backoff":
		if c.next == 0 {
			c.next = t.Count
		}
		if c.n == c.next {
			c.next *= max(2, t.Multiplier)
			return true
		}
		return false
	case "rate_filter":
		if now.Before(c.until) {
			return true
		}
		if now.Sub(c.start) >= window {
			c.start, c.n = now, 1
		}
		if c.n > t.Count {
			c.until = now.Add(time.Duration(t.Timeout) * time.Second)
			if t.Timeout == 0 {
				c.until = now.AddDate(100, 0, 0)
			}
			c.n = 0
			c.start = now
			return true
		}
		return false
	}
	return true
}

func bitOf(b *rule.Bit, name string, src, dst netip.Addr) bitKey {
	k := bitKey{name: name, kind: b.Kind[0]}
	switch b.Track {
	case "ip_src", "src", "":
		k.a = src
	case "ip_dst", "dst":
		k.a = dst
	case "ip_pair", "both":
		k.a, k.b = src, dst
		if k.b.Less(k.a) {
			k.a, k.b = k.b, k.a
		}
	}
	return k
}

// bit changes or tests a host bit.
func (s *State) bit(b *rule.Bit, name string, src, dst netip.Addr, now time.Time) bool {
	k := bitOf(b, name, src, dst)
	sh := &s.shard[hash(k.a, k.b, 1)]
	sh.Lock()
	defer sh.Unlock()
	until, ok := sh.bits[k]
	if ok && now.After(until) {
		delete(sh.bits, k)
		ok = false
	}
	switch b.Command {
	case "isset":
		return ok
	case "isnotset":
		return !ok
	case "unset":
		delete(sh.bits, k)
		return true
	case "toggle":
		if ok {
			delete(sh.bits, k)
			return true
		}
	}
	if len(sh.bits) >= maxEntries {
		for old := range sh.bits {
			delete(sh.bits, old)
			break
		}
	}
	expire := time.Duration(b.Expire) * time.Second
	if b.Expire == 0 {
		expire = time.Hour
	}
	sh.bits[k] = now.Add(expire)
	return true
}

// A set is a dataset.
type set struct {
	mu     sync.RWMutex
	kind   string
	values map[string]json.RawMessage
	rep    map[string]uint64
	save   string
	loaded string
	dirty  bool
	sub    bool
}

// define makes the set for a rule in the file from, and loads it if it is new. A set that is
// not saved is also reloaded when its file has changed: then it contains only the values in
// the file, without those that rules added.
func (s *State) define(d *rule.Dataset, from string, read func(from, name string) ([]byte, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sets[d.Name]
	if x == nil {
		if d.Type == "" && !d.IsRep {
			return fmt.Errorf("dataset %q has no type: the first rule that names it says type string, md5, sha256, ipv4 or ip", d.Name)
		}
		x = &set{kind: d.Type, values: map[string]json.RawMessage{}, rep: map[string]uint64{}}
		s.sets[d.Name] = x
	}
	if d.Save != "" {
		x.mu.Lock()
		x.save = relativeTo(from, d.Save)
		x.mu.Unlock()
	}
	if d.Load == "" || d.Save != "" && x.loaded == d.Load {
		return nil
	}
	var data []byte
	var err error
	if d.Save != "" {
		data, err = os.ReadFile(relativeTo(from, d.Load))
	} else {
		data, err = read(from, d.Load)
	}
	if errors.Is(err, fs.ErrNotExist) && d.Load == d.Save {
		return nil // it will be written later
	}
	if err != nil {
		return fmt.Errorf("dataset %q: %w", d.Name, err)
	}
	version := d.Load
	if d.Save == "" {
		version += fmt.Sprintf("\x00%x", sha256.Sum256(data))
	}
	if x.loaded == version {
		return nil
	}
	fresh := &set{kind: x.kind, values: map[string]json.RawMessage{}, rep: map[string]uint64{}, sub: x.sub}
	if x.loaded == "" { // definitions in rules, without a file
		maps.Copy(fresh.values, x.values)
		maps.Copy(fresh.rep, x.rep)
	}
	if err := fresh.load(d, data); err != nil {
		return fmt.Errorf("dataset %q: %s: %w", d.Name, relativeTo(from, d.Load), err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loaded, x.values, x.rep, x.sub, x.kind = version, fresh.values, fresh.rep, fresh.sub, fresh.kind
	return nil
}

// load reads the values in a file.
func (x *set) load(d *rule.Dataset, data []byte) error {
	switch d.Format {
	case "json":
		var all any
		if err := json.Unmarshal(data, &all); err != nil {
			return err
		}
		for _, key := range strings.FieldsFunc(d.ArrayKey, func(r rune) bool { return r == '.' }) {
			m, _ := all.(map[string]any)
			all = m[key]
		}
		list, ok := all.([]any)
		if !ok {
			return errors.New("the file has no array of objects; give its place with array_key")
		}
		return x.objects(d, list)
	case "ndjson", "jsonline":
		var list []any
		for line := range bytes.Lines(data) {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			var v any
			if err := json.Unmarshal(line, &v); err != nil {
				return err
			}
			list = append(list, v)
		}
		return x.objects(d, list)
	case "", "csv":
	default:
		return fmt.Errorf("format %q is not csv, json or ndjson", d.Format)
	}
	s := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		v, rest, _ := strings.Cut(line, ",")
		if strings.HasPrefix(line, `"`) {
			if f, err := csv.NewReader(strings.NewReader(line)).Read(); err == nil && len(f) > 0 {
				v, rest = f[0], strings.Join(f[1:], ",")
			}
		}
		raw, err := x.value(strings.TrimSpace(v), true)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		x.values[raw] = nil
		if rest = strings.TrimSpace(rest); rest != "" {
			rep, err := strconv.ParseUint(rest, 10, 16)
			if err == nil {
				x.rep[raw] = rep
			}
		}
	}
	return s.Err()
}

// errNoKey reports an element without a value.
var errNoKey = errors.New("no value")

// objects adds JSON objects. It ignores those without a value if others have one.
func (x *set) objects(d *rule.Dataset, list []any) error {
	found := false
	for _, v := range list {
		err := x.object(d, v)
		if err != nil && !errors.Is(err, errNoKey) {
			return err
		}
		found = found || err == nil
	}
	if !found && len(list) > 0 {
		return fmt.Errorf("no element has %q; give the place of the value with value_key", d.ValueKey)
	}
	return nil
}

// object adds one JSON object. Of several with the same value the first applies.
func (x *set) object(d *rule.Dataset, v any) error {
	at := v
	var in map[string]any
	keys := strings.FieldsFunc(d.ValueKey, func(r rune) bool { return r == '.' })
	for _, k := range keys {
		m, ok := at.(map[string]any)
		if !ok {
			return errNoKey
		}
		in, at = m, m[k]
	}
	text, ok := at.(string)
	if !ok {
		return errNoKey
	}
	raw, err := x.value(text, false)
	if err != nil {
		return err
	}
	if _, twice := x.values[raw]; twice {
		return nil
	}
	if d.RemoveKey && in != nil {
		delete(in, keys[len(keys)-1])
	}
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	x.values[raw] = doc
	return nil
}

// value converts a value in a file to the bytes of a buffer.
func (x *set) value(s string, encoded bool) (string, error) {
	switch x.kind {
	case "md5", "sha256":
		raw, err := hex.DecodeString(s)
		if err != nil || x.kind == "md5" && len(raw) != md5.Size || x.kind == "sha256" && len(raw) != sha256.Size {
			return "", fmt.Errorf("%q is not a digest of type %s", s, x.kind)
		}
		return string(raw), nil
	case "ip", "ipv4":
		a, err := netip.ParseAddr(s)
		if err != nil {
			return "", fmt.Errorf("%q is not an address", s)
		}
		return string(a.Unmap().AsSlice()), nil
	}
	if !encoded {
		return s, nil
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", fmt.Errorf("%q is not base64", s)
	}
	return string(raw), nil
}

// ask tests a dataset match on a buffer. doc is the document of a JSON set for the value.
func (s *State) ask(d *rule.Dataset, buf []byte) (ok bool, doc json.RawMessage) {
	s.mu.RLock()
	x := s.sets[d.Name]
	s.mu.RUnlock()
	if x == nil {
		return false, nil
	}
	key := buf
	if x.kind == "md5" && len(buf) != md5.Size || x.kind == "sha256" && len(buf) != sha256.Size {
		return d.Command == "isnotset", nil
	}
	x.mu.RLock()
	doc, ok = x.values[string(key)]
	for k := key; d.Subdomain && !ok && len(k) > 0; {
		// .a.b.c also matches .b.c
		i := bytes.IndexByte(k[1:], '.')
		if i < 0 {
			break
		}
		k = k[i+1:]
		if doc, ok = x.values[string(k)]; !ok {
			doc, ok = x.values[string(k[1:])]
		}
	}
	rep, hasRep := x.rep[string(key)]
	x.mu.RUnlock()
	switch d.Command {
	case "isset":
		return ok, doc
	case "isnotset":
		return !ok, nil
	case "rep":
		return hasRep && d.Rep.Match(rep), nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if d.Command == "set" {
		if ok || len(x.values) >= maxSet {
			return false, nil
		}
		x.values[string(key)], x.dirty = nil, true
		s.saveLater(x)
		return true, nil
	}
	delete(x.values, string(key))
	if ok {
		x.dirty = true
		s.saveLater(x)
	}
	return ok, nil
}

// KeepSaved makes datasets with a file be saved this long after a change.
func (s *State) KeepSaved(delay time.Duration) { s.delay.Store(int64(delay)) }

// saveLater schedules saving the changed datasets, of which x is one.
func (s *State) saveLater(x *set) {
	delay := time.Duration(s.delay.Load())
	if delay == 0 || x.save == "" || s.planned.Swap(true) {
		return
	}
	time.AfterFunc(delay, func() {
		s.planned.Store(false)
		if s.Save() != nil {
			x.mu.Lock()
			s.saveLater(x)
			x.mu.Unlock()
		}
	})
}

// Set carries out a script's command on a set: add, check or remove. known is false if there
// is no set of that name.
func (s *State) Set(name, command string, value []byte) (ok, known bool) {
	s.mu.RLock()
	_, known = s.sets[name]
	s.mu.RUnlock()
	if !known {
		return false, false
	}
	ok, _ = s.ask(&rule.Dataset{Name: name, Command: command}, value)
	return ok, true
}

// Save writes the datasets that rules changed and that have a file.
func (s *State) Save() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var errs []error
	for name, x := range s.sets {
		x.mu.Lock()
		if x.save == "" || !x.dirty {
			x.mu.Unlock()
			continue
		}
		var lines []string
		for v := range x.values {
			switch x.kind {
			case "string":
				v = base64.StdEncoding.EncodeToString([]byte(v))
			case "ip", "ipv4":
				a, _ := netip.AddrFromSlice([]byte(v))
				v = a.String()
			default:
				v = hex.EncodeToString([]byte(v))
			}
			lines = append(lines, v+"\n")
		}
		x.dirty = false
		x.mu.Unlock()
		slices.Sort(lines)
		if err := atomicfile.WriteBytes(x.save, 0o644, []byte(strings.Join(lines, ""))); err != nil {
			errs = append(errs, fmt.Errorf("saving dataset %q: %w", name, err))
			s.Unsaved.Add(1)
			x.mu.Lock()
			x.dirty = true
			x.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// A Flow is the memory of rules about one connection. Its methods are safe for
// concurrent use.
type Flow struct {
	mu   sync.Mutex
	bits map[string]struct{}
	ints map[string]uint32
	vars map[string][]byte

	Passed  bool       // a pass rule matched: nothing more is inspected
	Dropped bool       // a drop rule matched, and drops are obeyed
	begun   [2]*Engine // by direction: the engine whose rules on addresses were tried
}

// Bit changes or tests a flow bit.
func (f *Flow) Bit(command, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.bits[name]
	switch command {
	case "isset":
		return ok
	case "isnotset":
		return !ok
	case "unset":
		delete(f.bits, name)
		return true
	case "toggle":
		if ok {
			delete(f.bits, name)
			return true
		}
	}
	if f.bits == nil {
		f.bits = map[string]struct{}{}
	}
	if len(f.bits) < maxNames {
		f.bits[name] = struct{}{}
	}
	return true
}

// Bits returns the flow bits that are set, sorted.
func (f *Flow) Bits() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for b := range f.bits {
		out = append(out, b)
	}
	slices.Sort(out)
	return out
}

// Int returns a number of the connection.
func (f *Flow) Int(name string) (uint32, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.ints[name]
	return v, ok
}

// SetInt replaces a number of the connection by the result of change.
func (f *Flow) SetInt(name string, change func(old uint32, ok bool) uint32) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, ok := f.ints[name]
	v := change(old, ok)
	if f.ints == nil {
		f.ints = map[string]uint32{}
	}
	if ok || len(f.ints) < maxNames {
		f.ints[name] = v
	}
	return v
}

// Ints returns the numbers of the connection.
func (f *Flow) Ints() map[string]uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]uint32{}
	for k, v := range f.ints {
		out[k] = v
	}
	return out
}

// Var returns a string of the connection.
func (f *Flow) Var(name string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.vars[name]
	return v, ok
}

// SetVar stores a string of the connection.
func (f *Flow) SetVar(name string, v []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.vars == nil {
		f.vars = map[string][]byte{}
	}
	if _, ok := f.vars[name]; ok || len(f.vars) < maxNames {
		f.vars[name] = slices.Clone(v)
	}
}

// Vars returns the strings of the connection.
func (f *Flow) Vars() map[string][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string][]byte{}
	for k, v := range f.vars {
		out[k] = v
	}
	return out
}

// begin reports whether a packet is the first one in its direction on which e's rules on
// addresses are tried.
func (f *Flow) begin(e *Engine, d int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun[d] == e {
		return false
	}
	f.begun[d] = e
	return true
}
