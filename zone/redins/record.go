package redins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/zone"
)

// Changes of single records in the text of a zone; see [Store.Text].

// errNotThere reports that no line of a text has a record in the form that it is looked for.
var errNotThere = errors.New("this record is made of values that the form cannot change, such as an alias: change it in the text of the zone")

// Parse reads the records in the text of a zone that s serves: all of which a server would
// select.
func Parse(s *Source, origin string, text []byte) (*zone.Zone, error) {
	st := &Store{Schema: s.cfg.Schema}
	r, err := st.parse(&raw{origin: origin, key: origin}, text)
	if err != nil {
		return nil, err
	}
	b := &builder{schema: st.Schema, ttl: defaultTTL}
	return b.build(r), nil
}

// Edit replaces a record in the text of a zone by another; nil is none. Weights, places and
// other values of a changed record stay. raise raises the serial number, if the config has
// one.
func Edit(s *Source, origin string, text []byte, old, fresh miekg.RR, raise bool) ([]byte, error) {
	e := &textEdit{st: &Store{Schema: s.cfg.Schema}, origin: origin}
	for line := range bytes.Lines(text) {
		at, data, err := e.st.split(line)
		if err != nil {
			return nil, err
		}
		if at[0] != "" {
			e.lines = append(e.lines, textLine{at, data})
		}
	}
	for _, step := range []func() error{func() error { return e.take(old, fresh) }, func() error { return e.put(fresh) }} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	out := e.text()
	if raise && (old == nil || old.Header().Rrtype != miekg.TypeSOA) {
		out = Raise(out, 0)
	}
	return out, nil
}

type textLine struct {
	at   [2]string // label and type
	json []byte
}

type textEdit struct {
	st     *Store
	origin string
	lines  []textLine
	merge  json.RawMessage // the JSON of the record that is replaced, until the new one is put
	place  int             // of it in its set
}

func (e *textEdit) text() []byte {
	var b bytes.Buffer
	for _, l := range e.lines {
		b.WriteString(strings.TrimSuffix(l.at[0]+" "+l.at[1], " ") + " ")
		if json.Compact(&b, l.json) != nil {
			b.Write(l.json)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// line returns the index of the line of a name and type, -1 for none.
func (e *textEdit) line(owner, typ string) int {
	return slices.IndexFunc(e.lines, func(l textLine) bool {
		name, err := ownerName(l.at[0], e.origin)
		return err == nil && name == owner && (l.at[1] == typ || l.at[1] == "")
	})
}

// get returns the JSON of a name and type, nil for none.
func (e *textEdit) get(owner, typ string) json.RawMessage {
	i := e.line(owner, typ)
	if i < 0 || e.st.Schema == Z42 {
		if i < 0 {
			return nil
		}
		return e.lines[i].json
	}
	_, values, err := types(e.lines[i].json)
	if err != nil {
		return nil
	}
	for name, v := range values {
		if strings.EqualFold(name, typ) {
			return v
		}
	}
	return nil
}

// set replaces the JSON of a name and type; nil removes it.
func (e *textEdit) set(owner, typ string, v json.RawMessage) error {
	i := e.line(owner, typ)
	if i < 0 {
		if v == nil {
			return nil
		}
		label, err := relative(owner, e.origin)
		if err != nil {
			return err
		}
		at := [2]string{label, ""}
		if e.st.Schema == Z42 {
			at[1] = typ
		} else {
			v = marshal(map[string]json.RawMessage{strings.ToLower(typ): v})
		}
		e.lines = append(e.lines, textLine{at, v})
		return nil
	}
	if e.st.Schema != Z42 {
		all := map[string]json.RawMessage{}
		if err := json.Unmarshal(e.lines[i].json, &all); err != nil {
			return jsonError(err)
		}
		for name := range all {
			if strings.EqualFold(name, typ) {
				delete(all, name)
			}
		}
		if v != nil {
			all[strings.ToLower(typ)] = v
		}
		if v = nil; len(all) > 0 {
			v = marshal(all)
		}
	}
	if v == nil {
		e.lines = slices.Delete(e.lines, i, i+1)
		return nil
	}
	e.lines[i].json = v
	return nil
}

// records splits the JSON of a type into that of its records.
func records(typ string, v json.RawMessage) (list []json.RawMessage, rest map[string]json.RawMessage) {
	if typ == "RR" {
		_ = json.Unmarshal(v, &list)
		return list, nil
	}
	if err := json.Unmarshal(v, &rest); err != nil {
		return nil, nil
	}
	if rest["records"] == nil { // a single one
		return []json.RawMessage{v}, nil
	}
	if json.Unmarshal(rest["records"], &list) != nil {
		return nil, nil
	}
	return list, rest
}

// joined is the reverse of records.
func joined(typ string, list []json.RawMessage, rest map[string]json.RawMessage) json.RawMessage {
	switch {
	case len(list) == 0:
		return nil
	case typ == "RR":
		return marshal(list)
	case rest == nil:
		return list[0]
	}
	rest["records"] = marshal(list)
	return marshal(rest)
}

// take removes a record. When fresh has its name and type, the JSON is kept for put.
func (e *textEdit) take(old, fresh miekg.RR) error {
	if old == nil {
		return nil
	}
	h := old.Header()
	if h.Rrtype == miekg.TypeSOA {
		return nil // put replaces it
	}
	owner := zone.Canonical(h.Name)
	label, err := relative(owner, e.origin)
	if err != nil {
		return err
	}
	for _, typ := range []string{miekg.TypeToString[h.Rrtype], "RR"} {
		v := e.get(owner, typ)
		if v == nil {
			continue
		}
		list, rest := records(typ, v)
		for i, one := range list {
			alone := one
			switch {
			case typ == "RR":
				alone = marshal([]json.RawMessage{one})
			case rest != nil:
				alone = marshal(map[string]any{"records": []json.RawMessage{one}})
			}
			back := readBack(label, e.origin, typ, alone)
			if len(back) != 1 || !equalData(back[0], old) {
				continue
			}
			if fresh != nil && typ != "RR" && rest != nil && fresh.Header().Rrtype == h.Rrtype && zone.Canonical(fresh.Header().Name) == owner {
				e.merge, e.place = one, i
				if len(list) == 1 { // values of the set besides records stay
					return nil
				}
			}
			return e.set(owner, typ, joined(typ, slices.Delete(slices.Clone(list), i, i+1), rest))
		}
	}
	return errNotThere
}

// equalData reports whether two records differ at most in owner and TTL.
func equalData(a, b miekg.RR) bool {
	a = miekg.Copy(a)
	a.Header().Name, a.Header().Ttl = b.Header().Name, b.Header().Ttl
	return sameRecords([]miekg.RR{a}, []miekg.RR{b})
}

// put adds a record.
func (e *textEdit) put(rr miekg.RR) error {
	if rr == nil {
		return nil
	}
	h := rr.Header()
	owner, typ := zone.Canonical(h.Name), miekg.TypeToString[h.Rrtype]
	if soa, ok := rr.(*miekg.SOA); ok {
		return e.putSOA(soa)
	}
	label, err := relative(owner, e.origin)
	if err != nil {
		return err
	}
	one := setJSON([]miekg.RR{rr})
	if one == nil || !sameRecords(readBack(label, e.origin, typ, marshal(one)), []miekg.RR{rr}) {
		line, err := presentation(rr)
		if err != nil {
			return err
		}
		if e.merge != nil {
			return errNotThere
		}
		list, _ := records("RR", e.get(owner, "RR"))
		return e.set(owner, "RR", marshal(append(list, marshal(line))))
	}
	set, ok := one.(rrset)
	if !ok {
		return e.set(owner, typ, marshal(one))
	}
	fresh, was := set.Records[0], e.get(owner, typ)
	if was == nil {
		return e.set(owner, typ, marshal(one))
	}
	list, rest := records(typ, was)
	if rest == nil {
		return fmt.Errorf("%s %s: %w", owner, typ, errNotThere)
	}
	if e.merge != nil {
		all := map[string]json.RawMessage{}
		if json.Unmarshal(e.merge, &all) == nil {
			var changed map[string]json.RawMessage
			_ = json.Unmarshal(fresh, &changed) // just written
			for k, v := range changed {
				all[k] = v
			}
			fresh = marshal(all)
		}
		if len(list) == 1 && bytes.Equal(list[0], e.merge) {
			list = nil
		}
		list = slices.Insert(list, min(e.place, len(list)), fresh)
	} else {
		list = append(list, fresh)
	}
	rest["ttl"] = marshal(h.Ttl)
	return e.set(owner, typ, joined(typ, list, rest))
}

// putSOA replaces the SOA in the config. A serial number that stays is raised; without one the
// time of the change is the serial number.
func (e *textEdit) putSOA(soa *miekg.SOA) error {
	i := slices.IndexFunc(e.lines, func(l textLine) bool { return l.at[0] == configLine+":" })
	var old []byte
	if i >= 0 {
		old = e.lines[i].json
	}
	var before struct {
		SOA struct{ Serial *uint32 }
	}
	_ = json.Unmarshal(old, &before) // mergeConfig reports mistakes
	serial := before.SOA.Serial
	if serial != nil && soa.Serial == *serial {
		*serial++
	} else if serial != nil {
		*serial = soa.Serial
	}
	v, err := mergeConfig(old, &soaJSON{NS: soa.Ns, MBox: soa.Mbox, TTL: soa.Hdr.Ttl, Refresh: soa.Refresh, Retry: soa.Retry, Expire: soa.Expire, MinTTL: soa.Minttl, Serial: serial})
	if err != nil {
		return err
	}
	if i >= 0 {
		e.lines[i].json = v
		return nil
	}
	e.lines = slices.Insert(e.lines, 0, textLine{[2]string{configLine + ":", ""}, v})
	return nil
}

// Raise raises the serial number in a text, which is greater than above then (RFC 1982). A
// config without a serial number stays: the time of the change is the serial number.
func Raise(text []byte, above uint32) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if begin := []byte(configLine + ": "); bytes.HasPrefix(line, begin) {
			var config map[string]json.RawMessage
			var soa map[string]json.RawMessage
			var n uint32
			if json.Unmarshal(line[len(begin):], &config) == nil && json.Unmarshal(config["soa"], &soa) == nil && json.Unmarshal(soa["serial"], &n) == nil && soa["serial"] != nil {
				if n++; above != 0 && int32(above+1-n) > 0 {
					n = above + 1
				}
				soa["serial"] = marshal(n)
				config["soa"] = marshal(soa)
				line = append(append(slices.Clone(begin), marshal(config)...), '\n')
			}
		}
		out.Write(line)
	}
	return out.Bytes()
}
