//go:build !small

package authority

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/update"
)

// lock waits for its turn to change sources. The caller calls release when the change is written.
func (a *Authority) lock(ctx context.Context) (release func(), err error) {
	select {
	case a.writing <- struct{}{}:
		return func() { <-a.writing }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for other changes of zones: %w", ctx.Err())
	}
}

// Update makes a dynamic update (RFC 2136) that a key signed. It is acknowledged when it is on disk or
// in Redis.
func (a *Authority) Update(ctx context.Context, q *dns.Query, r *dns.Reply) {
	origin, view, by, rcode := a.MayUpdate(q)
	var d *update.Diff
	var err error
	if rcode == miekg.RcodeSuccess {
		d, rcode, err = a.update(ctx, q, origin, view)
	}
	r.Rcode = uint16(rcode)
	log, st := a.log.With("zone", origin, "view", view, "key", by, "client", q.Client.Addr()), a.Stats
	switch {
	case rcode == miekg.RcodeServerFailure:
		st.UpdatesFailed.Add(1)
		log.Error("a zone cannot be updated", "error", err)
	case rcode != miekg.RcodeSuccess:
		st.UpdatesRefused.Add(1)
		log.Debug("update refused", "answer", miekg.RcodeToString[rcode])
		if err != nil {
			log.Warn("update refused", "answer", miekg.RcodeToString[rcode], "error", err)
		}
	case d.IsEmpty():
		st.UpdatesEmpty.Add(1)
	default:
		st.Updates.Add(1)
		log.Info("zone updated", "deleted", len(d.Gone), "records", len(d.Come))
	}
}

var (
	errFetched = errors.New("the zone comes from another server: send the update there")
	errSigned  = errors.New("the zone was signed elsewhere, and an update would break its signatures: sign it here (dns.zones.sign), or update it there")
)

// tries bounds how often an update is made again because another node has changed the zone in Redis.
const tries = 5

// update makes an update, or returns the answer to it if it was made before.
func (a *Authority) update(ctx context.Context, q *dns.Query, origin, view string) (*update.Diff, int, error) {
	m, rcode := update.Read(q.Msg)
	if rcode != miekg.RcodeSuccess {
		return nil, rcode, nil
	}
	release, err := a.lock(ctx)
	if err != nil {
		return nil, miekg.RcodeServerFailure, err
	}
	defer release()
	signature, until := a.Signature(q)
	if rcode, ok := a.made.of(signature); ok {
		return &update.Diff{}, rcode, nil
	}
	for n := 1; ; n++ {
		d, rcode, err := a.updateOnce(ctx, m, origin, view)
		if n == tries || !errors.Is(err, zone.ErrChanged) || ctx.Err() != nil {
			if rcode != miekg.RcodeServerFailure { // which asks for another attempt
				a.made.note(signature, rcode, until, time.Now())
			}
			return d, rcode, err
		}
	}
}

// updateOnce reads the source of a zone, and writes it with the changes.
func (a *Authority) updateOnce(ctx context.Context, m *update.Message, origin, view string) (*update.Diff, int, error) {
	from, _ := a.sourceOf(origin, view)
	if from != fromFile && from != fromRedis {
		return nil, miekg.RcodeRefused, errFetched
	}
	text, z, path, err := a.Editor().source(ctx, origin, view)
	if err != nil {
		return nil, miekg.RcodeServerFailure, err
	}
	served := a.Served(origin, view)
	signed := a.Signs(origin) || from == fromRedis && served != nil && served.Info().Signed
	if !signed && slices.ContainsFunc(z.Records, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeRRSIG }) {
		return nil, miekg.RcodeRefused, errSigned
	}
	d, rcode := m.Apply(z.Records, signed)
	if rcode != miekg.RcodeSuccess || d.IsEmpty() {
		return d, rcode, nil
	}
	if path == "" {
		after, err := a.updatedValues(ctx, origin, text, z, d)
		if err != nil {
			return nil, miekg.RcodeRefused, err
		}
		began := time.Now()
		if err := redins.SetText(ctx, a.redis, origin, text, after); err != nil {
			return nil, miekg.RcodeServerFailure, err
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		redins.Await(short, a.redis, origin, began) // later it is served anyway
		return d, rcode, nil
	}
	after, next, err := updatedFile(text, origin, path, z, d)
	if err == nil {
		err = zone.NewResponder().Replace(next)
	}
	if err != nil {
		return nil, miekg.RcodeRefused, err
	}
	if err := a.files.Write(path, after, next); err != nil {
		return nil, miekg.RcodeServerFailure, err
	}
	return d, rcode, nil
}

// A step replaces a record of a source by another; nil is none.
type step struct{ old, fresh miekg.RR }

// stepsOf pairs records that go with those that take their place: of the same data with another TTL, or
// of a type of which a name has one.
func stepsOf(d *update.Diff) (all []step) {
	come := slices.Clone(d.Come)
	for _, old := range d.Gone {
		s := step{old: old}
		i := slices.IndexFunc(come, func(rr miekg.RR) bool {
			if keys := [2]miekg.RR_Header{*rr.Header(), *old.Header()}; keys[0].Rrtype != keys[1].Rrtype || zone.Canonical(keys[0].Name) != zone.Canonical(keys[1].Name) {
				return false
			}
			switch old.Header().Rrtype {
			case miekg.TypeSOA, miekg.TypeCNAME, miekg.TypeDNAME:
				return true
			}
			return miekg.IsDuplicate(rr, old)
		})
		if i >= 0 {
			s.fresh = come[i]
			come = slices.Delete(come, i, i+1)
		}
		all = append(all, s)
	}
	for _, rr := range come {
		all = append(all, step{fresh: rr})
	}
	return all
}

// after returns the records of a zone after an update.
func after(z *zone.Zone, d *update.Diff) []miekg.RR {
	gone := make(map[miekg.RR]bool, len(d.Gone))
	for _, rr := range d.Gone {
		gone[rr] = true
	}
	all := make([]miekg.RR, 0, len(z.Records)+len(d.Come))
	for _, rr := range z.Records {
		if !gone[rr] {
			all = append(all, rr)
		}
	}
	return append(all, d.Come...)
}

// withoutSOA returns the records but for the SOA record.
func withoutSOA(records []miekg.RR) []miekg.RR {
	return slices.DeleteFunc(slices.Clone(records), func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA })
}

// updatedValues returns the text of a zone in Redis after an update.
func (a *Authority) updatedValues(ctx context.Context, origin string, text []byte, z *zone.Zone, d *update.Diff) (out []byte, err error) {
	out = text
	steps := stepsOf(d)
	soa := slices.ContainsFunc(d.Come, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA })
	for i, s := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if out, err = redins.Edit(a.redis, origin, out, s.old, s.fresh, i == 0 && !soa); err != nil {
			return nil, err
		}
	}
	got, err := redins.Parse(a.redis, origin, out)
	if err != nil {
		return nil, err
	}
	if !update.Same(withoutSOA(got.Records), withoutSOA(after(z, d))) {
		return nil, ErrByHand
	}
	return out, nil
}

// updatedFile returns the text of a zone file after an update, and the zone in it. Lines that the update
// does not concern stay as they are where that is possible; else the file is written anew.
func updatedFile(text []byte, origin, path string, z *zone.Zone, d *update.Diff) ([]byte, *zone.Zone, error) {
	f := newFileText(text, origin)
	if !d.Serial() {
		if soa := slices.IndexFunc(d.Come, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA }); soa >= 0 {
			fresh := d.Come[soa].(*miekg.SOA)
			fresh.Serial = nextSerial(fresh.Serial)
		} else {
			at := slices.IndexFunc(z.Records, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA })
			if at < 0 {
				return nil, nil, errors.New("there is no SOA record")
			}
			fresh := miekg.Copy(z.Records[at]).(*miekg.SOA)
			fresh.Serial = nextSerial(fresh.Serial)
			raised := &update.Diff{Gone: append(slices.Clone(d.Gone), z.Records[at]), Come: append(slices.Clone(d.Come), fresh)}
			if out, got, ok := f.updated(path, z, d, after(z, raised)); ok {
				return out, got, nil
			}
			d = raised
		}
	}
	want := after(z, d)
	if out, got, ok := f.updated(path, z, d, want); ok {
		return out, got, nil
	}
	for i := range z.Records {
		if f.entry(z.Line(i)) < 0 || z.Line(i) == 0 {
			return nil, nil, fmt.Errorf("records in an included file: %w", ErrByHand)
		}
	}
	f.origin = ""
	var out bytes.Buffer
	slices.SortStableFunc(want, func(x, y miekg.RR) int { return first(x) - first(y) })
	for _, rr := range want {
		out.WriteString(f.line(rr, true))
	}
	got, err := zone.Read(bytes.NewReader(out.Bytes()), origin, path)
	if err != nil || !update.Same(got.Records, want) {
		return nil, nil, fmt.Errorf("%w (%v)", ErrByHand, err)
	}
	return out.Bytes(), got, nil
}

func first(rr miekg.RR) int {
	if rr.Header().Rrtype == miekg.TypeSOA {
		return 0
	}
	return 1
}

// updated returns the text with the changes of an update. Without an SOA record among them it raises the
// serial number. ok is false if the text does not have the wanted records then.
func (f *fileText) updated(path string, z *zone.Zone, d *update.Diff, want []miekg.RR) (text []byte, got *zone.Zone, ok bool) {
	f = &fileText{lines: slices.Clone(f.lines), entries: f.entries, origin: f.origin}
	if !slices.ContainsFunc(d.Come, func(rr miekg.RR) bool { return rr.Header().Rrtype == miekg.TypeSOA }) && f.raiseSerial(z, slices.Clone(z.Records), nil) != nil {
		return nil, nil, false
	}
	made := make([][]miekg.RR, len(f.entries)) // what each entry makes
	place := make(map[miekg.RR]int, len(z.Records))
	last := map[string]int{} // entry of each name
	for i, rr := range z.Records {
		entry := f.entry(z.Line(i))
		place[rr] = entry
		if entry >= 0 {
			made[entry] = append(made[entry], rr)
			last[zone.Canonical(rr.Header().Name)] = entry
		}
	}
	instead, behind := map[int][]miekg.RR{}, map[int][]miekg.RR{} // entries that are replaced, and what comes behind others
	for _, s := range stepsOf(d) {
		entry := -1
		if s.old != nil {
			if entry = place[s.old]; entry < 0 {
				return nil, nil, false
			}
			if _, begun := instead[entry]; !begun {
				instead[entry] = slices.Clone(made[entry])
			}
			instead[entry] = slices.DeleteFunc(instead[entry], func(rr miekg.RR) bool { return rr == s.old })
			if s.fresh != nil {
				instead[entry] = append(instead[entry], s.fresh)
			}
			continue
		}
		entry, known := last[zone.Canonical(s.fresh.Header().Name)]
		if !known {
			entry = len(f.entries) - 1
		}
		behind[entry] = append(behind[entry], s.fresh)
	}
	var out strings.Builder
	at, moved := 0, false // the next line; whether the owner before it is another than it was
	write := func(records []miekg.RR, comment string) {
		for i, rr := range records {
			line := f.line(rr, true)
			if i == 0 && comment != "" {
				line = strings.TrimSuffix(line, "\n") + comment + "\n"
			}
			out.WriteString(line)
		}
		moved = true
	}
	for i, e := range f.entries {
		for ; at < e[0]; at++ {
			out.WriteString(f.lines[at])
		}
		if fresh, replaced := instead[i]; replaced {
			note := ""
			if e[1] == e[0]+1 {
				note = comment(f.lines[e[0]])
			}
			write(fresh, note)
			at = e[1]
		}
		for ; at < e[1]; at++ {
			line := f.lines[at]
			if at == e[0] && moved && len(made[i]) > 0 {
				if blank(line[0]) {
					line = made[i][0].Header().Name + line
				}
				moved = false
			}
			out.WriteString(line)
		}
		if come := behind[i]; len(come) > 0 {
			write(come, "")
		}
	}
	for ; at < len(f.lines); at++ {
		out.WriteString(f.lines[at])
	}
	text = []byte(out.String())
	got, err := zone.Read(bytes.NewReader(text), z.Origin, path)
	return text, got, err == nil && update.Same(got.Records, want)
}
