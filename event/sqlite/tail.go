package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

// A tail makes segments of rows that the index lacks: the latest rows, or all
// rows of another program's file. It keeps the last segment and adds new rows
// to it.
type tail struct {
	mu   sync.Mutex
	c    *conn
	scan *scanner
	b    builder
	kept *segment       // made from the rows in b; nil if b has nothing useful
	gram map[int][]byte // parts with the grams of kept, made on demand
}

// segments yields segments of the rows in a span of ids. It returns false when
// yield does.
func (t *tail) segments(ctx context.Context, path string, in span, newest bool, yield func(*segment, error) bool) bool {
	for in.first <= in.last {
		s, err := t.next(ctx, path, in, newest)
		if err != nil {
			return yield(nil, err)
		}
		if newest && s.last < in.last && !t.segments(ctx, path, span{s.last + 1, in.last}, newest, yield) {
			return false
		}
		if s.rows > 0 && !yield(s, nil) {
			return false
		}
		if newest {
			in.last = s.first - 1
		} else {
			in.first = s.last + 1
		}
	}
	return true
}

// next returns the next segment of a span; last reports that it is the last one.
func (t *tail) next(ctx context.Context, path string, in span, newest bool) (s *segment, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		if t.c, err = openConn(path); err != nil {
			return nil, err
		}
		if err := t.c.exec("PRAGMA query_only = 1; PRAGMA cache_size = -1024"); err != nil {
			return nil, err
		}
	}
	if t.scan == nil {
		if t.scan, err = newScanner(t.c); err != nil {
			return nil, err
		}
	}
	if known := t.kept != nil && t.kept.first == in.first && !t.b.full(); newest && !known { // takes only as many rows at the end as fit
		from, err := t.c.int(fmt.Sprintf("SELECT id FROM event WHERE id BETWEEN %d AND %d ORDER BY id DESC LIMIT 1 OFFSET %d", in.first, in.last, t.b.room()-1))
		if err != nil {
			return nil, err
		}
		in.first = max(in.first, from)
	}
	// Rows from a time when the clock was ahead are not in order.
	now := time.Now().Add(clockSlack).UnixMicro()
	if k := t.kept; k == nil || k.first != in.first || k.last > now || t.b.full() {
		t.kept = nil
		t.b.begin(in.first)
	} else if k.last >= in.last {
		return k, nil
	}
	from := in.first
	if t.kept != nil {
		from = t.kept.last + 1
	}
	last, err := t.scan.into(&t.b, span{from, in.last})
	if err != nil {
		t.kept = nil
		return nil, err
	}
	if t.kept == nil || last >= from { // there are new rows
		t.kept, t.gram = t.b.segment(max(last, from-1)), nil
		rows := t.kept.rows
		t.kept.grams = func(part int) ([]byte, error) { return t.grams(in.first, rows, part), nil }
	}
	s = t.kept
	if !t.b.full() { // the span has no more rows
		c := *s
		c.last = max(c.last, in.last)
		s = &c
	}
	return s, nil
}

// grams returns a part of the grams of the segment that begins with first and has that many
// rows. It returns nil if rows were added since.
func (t *tail) grams(first int64, rows, part int) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil || t.kept.first != first || t.kept.rows != rows {
		return nil
	}
	if t.gram == nil {
		t.gram = map[int][]byte{}
		for p, blob := range t.b.grams.parts {
			t.gram[p] = slices.Clone(blob)
		}
	}
	return t.gram[part]
}

func (t *tail) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.c == nil {
		return nil
	}
	t.scan.close()
	err := t.c.close()
	t.c, t.scan, t.kept = nil, nil, nil
	return err
}

// segment returns the rows added so far, up to id last, as a segment without
// grams.
func (b *builder) segment(last int64) *segment {
	s := &segment{first: b.first, last: last, rows: len(b.ids), lag: b.lag(), parts: map[int][]byte{}}
	for part, blob := range b.parts {
		s.parts[part] = slices.Clone(blob)
	}
	return s
}

func (b *builder) lag() int64 {
	most := int64(0)
	for _, l := range b.lags {
		most = max(most, l)
	}
	return most
}

// A scanner reads the index values of rows.
type scanner struct {
	*stmt
	addrs addresses // of clients
}

func newScanner(c *conn) (*scanner, error) {
	s, err := c.prepare(`SELECT id, coalesce(time, id), proto, action, flags, status, ref, client, user, policy, rule, method, host, type, url,
		category, evidence, note, more FROM event WHERE id BETWEEN ? AND ? ORDER BY id`)
	if err != nil {
		return nil, err
	}
	return &scanner{stmt: s, addrs: addresses{}}, nil
}

func (s *scanner) close() {
	if s != nil {
		s.stmt.close()
	}
}

// into adds rows of a span of ids to b until it is full. It returns the last id added, or 0.
func (s *scanner) into(b *builder, in span) (last int64, err error) {
	s.bindNumber(1, in.first)
	s.bindNumber(2, in.last)
	defer s.reset()
	for !b.full() {
		ok, err := s.step()
		if !ok {
			return last, err
		}
		r := event.Row{
			Time: time.UnixMicro(s.int(1)), Proto: filter.Proto(s.int(2)), Action: filter.Action(s.int(3)), Learned: s.int(4)&flagLearned != 0,
			Status: int(s.int(5)), ID: s.text(6), User: s.text(8), Policy: s.text(9), Rule: s.text(10), Method: s.text(11),
			Host: s.text(12), Type: s.text(13), URL: s.text(14), Category: s.text(15), Evidence: s.text(16), Note: s.text(17),
		}
		if r.Client, err = s.addrs.parse(s.text(7)); err != nil {
			return last, err
		}
		if more := s.text(18); more != "" {
			if err := r.ParseTexts(more); err != nil {
				return last, err
			}
		}
		last = s.int(0)
		b.add(last, &r)
	}
	return last, nil
}
