package state

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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/atomicfile"
	"shuultuur/lib/suricata/rule"
)

// A set is a dataset.
type set struct {
	mu     sync.RWMutex
	kind   string
	values map[string]json.RawMessage
	rep    map[string]uint64
	save   Saving
	room   *room
	loaded string
	dirty  bool
}

// A room is what one source may add to datasets.
type room struct {
	saved map[string]struct{} // files; guarded by State.mu
	bytes atomic.Int64        // of values
	full  atomic.Bool         // a value was not added
}

// A Definition is a dataset as a rule of some source defines it.
type Definition struct {
	*rule.Dataset
	Source string
	Saving Saving
	Read   func() ([]byte, error) // of the file to load; nil if none is to be loaded now
}

// content returns what to load. What was saved is newer than the file that came with the rules.
func (d *Definition) content() ([]byte, error) {
	if d.Load == d.Save && d.Saving.File != "" {
		if data, err := d.Saving.read(); !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	return d.Read()
}

// Define makes the set for a rule, and loads it if it is new. A set that is not saved is also
// reloaded when its file has changed: then it contains only the values in the file, without
// those that rules added.
func (s *State) Define(d Definition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Type == "" && !d.IsRep && s.sets[d.Name] == nil {
		return fmt.Errorf("dataset %q has no type: the first rule that names it says type string, md5, sha256, ipv4 or ip", d.Name)
	}
	r := s.rooms[d.Source]
	if r == nil {
		r = &room{saved: map[string]struct{}{}}
		s.rooms[d.Source] = r
	}
	if d.Saving.File != "" {
		if r.saved[d.Saving.File] = struct{}{}; len(r.saved) > maxSaved {
			delete(r.saved, d.Saving.File)
			return fmt.Errorf("dataset %q: the rules of %s save more than %d datasets", d.Name, d.Source, maxSaved)
		}
	}
	x := s.sets[d.Name]
	if x == nil {
		x = &set{kind: d.Type, room: r, values: map[string]json.RawMessage{}, rep: map[string]uint64{}}
		s.sets[d.Name] = x
	}
	if d.Saving.File != "" {
		x.mu.Lock()
		x.save = d.Saving
		x.mu.Unlock()
	}
	if d.Read == nil || d.Save != "" && x.loaded == d.Load {
		return nil
	}
	data, err := d.content()
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
	fresh := &set{kind: x.kind, values: map[string]json.RawMessage{}, rep: map[string]uint64{}}
	if x.loaded == "" { // definitions in rules, without a file
		maps.Copy(fresh.values, x.values)
		maps.Copy(fresh.rep, x.rep)
	}
	if err := fresh.load(d.Dataset, data); err != nil {
		return fmt.Errorf("dataset %q: %s: %w", d.Name, d.Load, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.room.bytes.Add(fresh.bytes() - x.bytes())
	x.loaded, x.values, x.rep, x.kind = version, fresh.values, fresh.rep, fresh.kind
	return nil
}

// bytes returns the size of the values.
func (x *set) bytes() (n int64) {
	for v := range x.values {
		n += int64(len(v))
	}
	return n
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

// Ask tests a dataset match on a buffer. doc is the document of a JSON set for the value.
func (s *State) Ask(d *rule.Dataset, buf []byte) (ok bool, doc json.RawMessage) {
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
		switch size := int64(len(key)); {
		case ok:
			return false, nil
		case len(x.values) >= maxSet, x.room.bytes.Load()+size > maxValues:
			x.room.full.Store(true)
			return false, nil
		default:
			x.room.bytes.Add(size)
		}
		x.values[string(key)], x.dirty = nil, true
		s.saveLater(x)
		return true, nil
	}
	delete(x.values, string(key))
	if ok {
		x.room.bytes.Add(-int64(len(key)))
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
	if delay == 0 || x.save.File == "" || s.planned.Swap(true) {
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
	ok, _ = s.Ask(&rule.Dataset{Name: name, Command: command}, value)
	return ok, true
}

// Save writes the datasets that rules changed and that have a file.
func (s *State) Save() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var errs []error
	for name, x := range s.sets {
		x.mu.Lock()
		if x.save.File == "" || !x.dirty {
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
		to := x.save
		x.mu.Unlock()
		slices.Sort(lines)
		if err := to.write([]byte(strings.Join(lines, ""))); err != nil {
			errs = append(errs, fmt.Errorf("saving dataset %q: %w", name, err))
			s.Unsaved.Add(1)
			x.mu.Lock()
			x.dirty = true
			x.mu.Unlock()
		}
	}
	err := errors.Join(errs...)
	s.lost.Store(nil)
	if err != nil {
		s.lost.Store(new(err.Error()))
	}
	return err
}

// Problems returns why values of datasets are missing.
func (s *State) Problems() (all []string) {
	if lost := s.lost.Load(); lost != nil {
		all = append(all, *lost+"; it is tried again")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, source := range slices.Sorted(maps.Keys(s.rooms)) {
		if s.rooms[source].full.Load() {
			all = append(all, fmt.Sprintf("the datasets of %s are full; rules add no more values to them", source))
		}
	}
	return all
}

// A Saving says where a dataset is saved.
type Saving struct {
	Root string // the folder of all
	File string // below root; "" if the dataset is not saved
}

func (s Saving) read() ([]byte, error) { return rule.ReadBelow(s.Root, filepath.ToSlash(s.File)) }

// write writes the file, and makes its folder. A link in place of a folder may not lead out.
func (s Saving) write(data []byte) error {
	if err := os.MkdirAll(s.Root, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(s.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(s.File), 0o700); err != nil {
		return err
	}
	if _, err := root.Stat(filepath.Dir(s.File)); err != nil { // a link that leads out
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(s.Root, s.File), 0o600, data)
}
