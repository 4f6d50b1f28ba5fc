package sqlite

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
)

// maxRowReaders is the most pages of rows that are read concurrently.
const maxRowReaders = 4

// rowReaders are the connections that read rows and parts of segments. They do not use
// database/sql, because its driver takes three times as long for a row of 29 columns, and copies each
// blob twice.
type rowReaders struct {
	once   sync.Once
	places chan struct{} // one element for each reader at work

	mu     sync.Mutex
	idle   *rowReader // kept with its statements for the next page
	closed bool
}

// A rowReader reads rows over its own connection.
type rowReader struct {
	*conn
	spans [2]*stmt // rows between two ids, oldest and newest first; nil until they are needed
	parts *stmt    // parts of a segment; nil until it is needed
	total *stmt    // likewise, a total
	addrs addresses
	texts []byte // of the current row
}

// read reads the rows with ids that match rest.
func (a *rowReaders) read(ctx context.Context, path string, ids wantedRows, rest []*event.Term, newest bool) (rows []event.Row, err error) {
	err = a.use(ctx, path, func(r *rowReader) (err error) {
		rows, err = r.page(ids, rest, newest)
		return err
	})
	return rows, err
}

// use runs f with a reader, which is closed if f fails.
func (a *rowReaders) use(ctx context.Context, path string, f func(*rowReader) error) error {
	a.once.Do(func() { a.places = make(chan struct{}, maxRowReaders) })
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	a.mu.Lock()
	r := a.idle
	a.idle = nil
	a.mu.Unlock()
	if r == nil {
		var err error
		if r, err = openRows(path); err != nil {
			return err
		}
	}
	if err := f(r); err != nil {
		return errors.Join(err, r.close())
	}
	a.mu.Lock()
	if a.idle == nil && !a.closed {
		a.idle, r = r, nil
	}
	a.mu.Unlock()
	if r != nil {
		return r.close()
	}
	return nil
}

func (a *rowReaders) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.idle
	a.idle, a.closed = nil, true
	if r == nil {
		return nil
	}
	return r.close()
}

func openRows(path string) (*rowReader, error) {
	c, err := openConn(path)
	if err != nil {
		return nil, err
	}
	if err := c.exec("PRAGMA query_only = 1; PRAGMA cache_size = -1024"); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return &rowReader{conn: c, addrs: addresses{}}, nil
}

func (r *rowReader) close() error {
	for _, s := range r.spans {
		s.close()
	}
	r.parts.close()
	r.total.close()
	return r.conn.close()
}

// page reads the rows with ids that match rest. It leaves no transaction open.
func (r *rowReader) page(ids wantedRows, rest []*event.Term, newest bool) (page []event.Row, err error) {
	s, done, err := r.statement(ids, rest, newest)
	if err != nil {
		return nil, err
	}
	defer done()
	page = make([]event.Row, 0, len(ids.ids))
	for {
		ok, err := s.step()
		if !ok {
			return page, err
		}
		page = append(page, event.Row{})
		if err := r.scan(s, &page[len(page)-1]); err != nil {
			return nil, err
		}
	}
}

// partsAtOnce is how many parts of a segment one statement reads, all from the same state of the
// database. No question needs more.
const partsAtOnce = 16

// segment reads parts of a segment.
func (r *rowReader) segment(s *segment, parts []int) (err error) {
	if r.parts == nil {
		if r.parts, err = r.prepare("SELECT id, data FROM part WHERE id IN (?" + strings.Repeat(", ?", partsAtOnce-1) + ")"); err != nil {
			return err
		}
	}
	defer r.parts.reset()
	for n := range partsAtOnce {
		p := parts[min(n, len(parts)-1)]
		s.parts[p] = nil
		r.parts.bindNumber(int32(n+1), partID(s.first, p))
	}
	for {
		ok, err := r.parts.step()
		if !ok {
			return err
		}
		s.parts[int(r.parts.int(0)-partID(s.first, 0))] = r.parts.blob(1)
	}
}

// totalOf reads a total; it is empty if it is too large to be stored.
func (r *rowReader) totalOf(id int64) (b []byte, err error) {
	if r.total == nil {
		if r.total, err = r.prepare("SELECT data FROM total WHERE id = ?"); err != nil {
			return nil, err
		}
	}
	defer r.total.reset()
	r.total.bindNumber(1, id)
	if ok, err := r.total.step(); !ok {
		return nil, err
	}
	return r.total.blob(0), nil
}

// statement returns the statement that finds the rows, and the function to call
// afterwards.
func (r *rowReader) statement(ids wantedRows, rest []*event.Term, newest bool) (s *stmt, done func(), err error) {
	query, args := statement(rowColumns, ids, rest)
	kept := &r.spans[0]
	if newest {
		query += " DESC"
		kept = &r.spans[1]
	}
	if ids.gaps || len(rest) > 0 {
		if s, err = r.prepare(query); err != nil {
			return nil, nil, err
		}
		done = s.close
	} else {
		if *kept == nil {
			if *kept, err = r.prepare(query); err != nil {
				return nil, nil, err
			}
		}
		s, done = *kept, (*kept).reset
	}
	if err := s.bindAll(args); err != nil {
		done()
		return nil, nil, err
	}
	return s, done, nil
}

// bindAll binds numbers and texts in their order.
func (s *stmt) bindAll(args []any) error {
	size := 0
	for _, a := range args {
		if t, ok := a.(string); ok {
			size += len(t)
		}
	}
	if err := s.begin(size); err != nil {
		return err
	}
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			s.bindNumber(int32(i+1), a)
		case string: // "" is a text, too
			copy(s.c.bytes[s.c.used:], a)
			s.bindHeld(int32(i+1), len(a))
		}
	}
	return nil
}

// scan reads a row. All its texts share one allocation.
func (r *rowReader) scan(s *stmt, row *event.Row) (err error) {
	number := func(p int32) int64 { return s.int(p - 1) }
	flags := number(pFlags)
	*row = event.Row{
		Seq: number(pID), Time: time.UnixMicro(number(pTime)).UTC(), Duration: time.Duration(number(pDuration)) * time.Microsecond,
		Proto: filter.Proto(number(pProto)), Action: filter.Action(number(pAction)), Status: int(number(pStatus)), Port: uint16(number(pPort)),
		BytesIn: number(pBytesIn), BytesOut: number(pBytesOut), Score: int(number(pScore)), Learned: flags&flagLearned != 0,
	}
	row.HeadOut, row.Looked, row.Length, row.Parent = number(pHeadOut), number(pLooked), number(pLength), flags&flagParent != 0
	if s.null(pTime - 1) {
		row.Time = time.UnixMicro(row.Seq).UTC()
	}
	if s.null(pLength - 1) {
		row.Length = row.Looked
	}
	if row.Client, err = r.addrs.parse(s.text(pClient - 1)); err != nil {
		return err
	}
	if row.Server, err = r.addrs.parse(s.text(pServer - 1)); err != nil {
		return err
	}
	if more := s.text(pMore - 1); more != "" {
		if err := row.ParseTexts(more); err != nil {
			return err
		}
	}
	to := [...]struct {
		column int32
		text   *string
		end    int
	}{
		{column: pRef, text: &row.ID}, {column: pUser, text: &row.User}, {column: pPolicy, text: &row.Policy}, {column: pRule, text: &row.Rule},
		{column: pMethod, text: &row.Method}, {column: pHost, text: &row.Host}, {column: pType, text: &row.Type}, {column: pURL, text: &row.URL},
		{column: pCategory, text: &row.Category}, {column: pEvidence, text: &row.Evidence}, {column: pFindings, text: &row.Findings}, {column: pNote, text: &row.Note},
	}
	r.texts = r.texts[:0]
	for i := range to {
		r.texts = append(r.texts, s.text(to[i].column-1)...)
		to[i].end = len(r.texts)
	}
	all, from := string(r.texts), 0
	for i := range to {
		*to[i].text = all[from:to[i].end]
		from = to[i].end
	}
	return nil
}

// addresses caches parsed addresses, because most rows repeat them.
type addresses map[string]netip.Addr

// parse parses an address from a text that need not stay valid; "" is the zero
// Addr.
func (m addresses) parse(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	if a, ok := m[text]; ok {
		return a, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, err
	}
	if len(m) > 10_000 {
		clear(m)
	}
	m[strings.Clone(text)] = a
	return a, nil
}
