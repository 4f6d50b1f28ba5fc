//go:build !small

package authority

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/atomicfile"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/transfer"
)

// Show lists the zones by origin, then view.
func (a *Authority) Show() []Summary {
	all := []Summary{}
	for _, i := range slices.Concat(a.responder.Zones(), a.responder.Unavailable()) {
		s := Summary{Origin: i.Origin, View: i.View, Serial: i.Serial, Names: i.Names, Records: i.Records, Bytes: i.Bytes, Signed: i.Signed, Signs: a.Signs(i.Origin), Unavailable: i.Unavailable}
		if i.Expires != nil {
			s.Expires = time.Unix(i.Expires.Load(), 0)
		}
		s.From, s.Path = a.sourceOf(i.Origin, i.View)
		all = append(all, s)
	}
	return all
}

// Sources of zones that can be edited.
const (
	fromFile  = "file"
	fromRedis = "redis"
)

// sourceOf returns the source of a zone, and the path of its file.
func (a *Authority) sourceOf(origin, view string) (sourceOf, path string) {
	if path := a.files.Path(origin, view); path != "" {
		return fromFile, path
	}
	switch {
	case slices.ContainsFunc(a.secondaries, func(s transfer.Secondary) bool { return zone.Canonical(s.Zone) == origin }):
		return "primary", ""
	case a.redis != nil && view == "" && a.redis.Has(origin):
		return fromRedis, ""
	}
	return "catalog", ""
}

// State returns the state of a zone's signatures and transfers.
func (a *Authority) State(of Summary) (st State) {
	m, s := a.Transfers(of.Origin, of.View)
	if st.Transfers = m; s != nil {
		for _, ds := range s.DS(time.Now()) {
			st.DS = append(st.DS, ds.String())
		}
		st.Resign = s.Renew(of.View)
	}
	return st
}

// Records returns up to most records of a zone, after so many, as text, without signatures and
// NSEC or NSEC3 records. cut reports that there are more.
func (a *Authority) Records(origin, view string, after, most int) (all []string, cut bool, err error) {
	s := a.Served(zone.Canonical(origin), view)
	if s == nil {
		return nil, false, fmt.Errorf("%w: %s", ErrNoZone, origin)
	}
	for wire := range s.Records() {
		rr, _, err := miekg.UnpackRR(wire, 0)
		if err != nil {
			return nil, false, fmt.Errorf("zone %s: reading a record: %w", origin, err)
		}
		switch rr.Header().Rrtype {
		case miekg.TypeRRSIG, miekg.TypeNSEC, miekg.TypeNSEC3:
			continue
		}
		if after > 0 {
			after--
			continue
		}
		if len(all) == most {
			return all, true, nil
		}
		all = append(all, rr.String())
	}
	return all, false, nil
}

// Text returns the source of a zone: the text of its file, or one line for each value in
// Redis.
func (a *Authority) Text(ctx context.Context, origin, view string) (text []byte, err error) {
	origin = zone.Canonical(origin)
	switch from, path := a.sourceOf(origin, view); from {
	case fromFile:
		return os.ReadFile(path)
	case fromRedis:
		return redins.Text(ctx, a.redis, origin)
	}
	return nil, fmt.Errorf("%w in a file or in Redis: %s", ErrNoZone, origin)
}

// Check returns the mistake in a text as the source of a zone, with its line.
func (a Editor) Check(ctx context.Context, origin, view string, text []byte) error {
	origin = zone.Canonical(origin)
	from, path := a.zones.sourceOf(origin, view)
	switch from {
	case fromFile:
	case fromRedis:
		return redins.CheckText(ctx, a.zones.redis, origin, text)
	default:
		return fmt.Errorf("%w in a file or in Redis: %s", ErrNoZone, origin)
	}
	z, err := zone.Read(bytes.NewReader(text), origin, path)
	if err != nil {
		return err
	}
	if z.Origin != origin {
		return fmt.Errorf("%s: the text is that of the zone %s, not of %s", path, z.Origin, origin)
	}
	if err := zone.NewResponder().Replace(z); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if old := a.zones.Served(origin, view); old != nil && !a.zones.Signs(origin) && serial(z) == old.Info().Serial && !slices.Equal(texts(old.Source()), texts(z)) {
		return fmt.Errorf("%s: the records change and the serial number %d does not: raise it, or secondaries keep the old ones", path, serial(z))
	}
	return nil
}

// Unchanged returns [zone.ErrChanged] if the source of a zone is not the text that was read.
func (a Editor) Unchanged(ctx context.Context, origin, view string, was []byte) error {
	now, err := a.zones.Text(ctx, origin, view)
	if err == nil && !bytes.Equal(now, was) {
		return fmt.Errorf("zone %s: %w", origin, zone.ErrChanged)
	}
	return err
}

// Write replaces the source of a zone, which is then served. It returns [zone.ErrChanged] if the
// source is not the text that was read, and a mistake in the new text with its line. One program
// writes one file at a time; values in Redis may be written by several.
func (a Editor) Write(ctx context.Context, origin, view string, was, text []byte) error {
	origin = zone.Canonical(origin)
	if err := a.Check(ctx, origin, view, text); err != nil {
		return err
	}
	release, err := a.zones.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	from, path := a.zones.sourceOf(origin, view)
	if from == fromRedis {
		return redins.SetText(ctx, a.zones.redis, origin, was, text)
	}
	if err := a.Unchanged(ctx, origin, view, was); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return atomicfile.WriteBytes(path, mode, text)
}

// serial returns the serial of a zone's SOA.
func serial(z *zone.Zone) uint32 {
	for _, rr := range z.Records {
		if soa, ok := rr.(*miekg.SOA); ok {
			return soa.Serial
		}
	}
	return 0
}

// texts returns the records of a zone as sorted text.
func texts(z *zone.Zone) []string {
	var all []string
	for _, rr := range z.Records {
		all = append(all, rr.String())
	}
	slices.Sort(all)
	return all
}
