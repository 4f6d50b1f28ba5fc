package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shuultuur/event"
)

// Erase removes the rows of a person, and the notes that name the person. The server rewrites
// the parts and removes the old ones within seconds. It logs statements that change a table, so
// these name rows only by place.
func (s *Store) Erase(ctx context.Context, p event.Person, dry bool) (int64, error) {
	if dry {
		return p.Count(ctx, s)
	}
	n, err := s.erase(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("erase events from ClickHouse: %w", err)
	}
	return n, nil
}

func (s *Store) erase(ctx context.Context, p event.Person) (int64, error) {
	if err := s.ready(ctx); err != nil || p.Empty() {
		return 0, err
	}
	var any, words []string
	if len(p.Users) > 0 {
		any = append(any, "user != '' AND user IN "+literals(p.Users))
		words = append(words, p.Users...)
	}
	var clients []string
	for _, a := range p.Clients {
		clients = append(clients, a.String())
	}
	if len(clients) > 0 {
		any = append(any, "client IN "+literals(clients))
		words = append(words, clients...)
	}
	n, err := s.eraseRows(ctx, strings.Join(any, " OR "))
	if err != nil {
		return 0, err
	}
	return n, s.eraseNotes(ctx, p, words)
}

// erasedAtOnce is the most rows that one statement deletes.
const erasedAtOnce = 50_000

// eraseRows deletes the rows that meet a condition.
func (s *Store) eraseRows(ctx context.Context, where string) (n int64, err error) {
	for {
		var places []string
		err := s.ask(ctx, fmt.Sprintf("SELECT seq FROM event WHERE %s LIMIT %d", where, erasedAtOnce), func(d *decoder) {
			places = append(places, strconv.FormatInt(d.int64(), 10))
		})
		if err != nil || len(places) == 0 {
			return n, err
		}
		if err := s.exec(ctx, "ALTER TABLE event DELETE WHERE seq IN ("+strings.Join(places, ", ")+")"); err != nil {
			return n, err
		}
		n += int64(len(places))
	}
}

const lineDigest = "reinterpretAsInt64(sipHash64(line))"

// eraseNotes removes notes that name the person from others' rows: it inserts changed copies
// and then deletes the originals.
func (s *Store) eraseNotes(ctx context.Context, p event.Person, words []string) error {
	var any []string
	for _, w := range words {
		text := string(event.AppendJSON(nil, w))
		any = append(any, "position(line, "+literal(text[1:len(text)-1])+") > 0")
	}
	named := strings.Join(any, " OR ")
	for after := int64(0); ; {
		var lines []line
		digests := map[int64]int64{} // distinguish a row from its copy
		err := s.ask(ctx, fmt.Sprintf("SELECT seq, line, %s FROM event WHERE seq > %d AND (%s) ORDER BY seq LIMIT %d", lineDigest, after, named, piece), func(d *decoder) {
			l, sum := line{d.int64(), d.text()}, d.int64()
			if d.err == nil {
				lines = append(lines, l)
				digests[l.seq] = sum
			}
		})
		if err != nil || len(lines) == 0 {
			return err
		}
		after = lines[len(lines)-1].seq
		var old []string
		err = s.copies(ctx, lines, func(r *event.Row) bool {
			if !p.In(r.Note) { // the word is in a URL or host, which is not about the person
				return false
			}
			old = append(old, fmt.Sprintf("(%d, %d)", r.Seq, digests[r.Seq]))
			r.Note = ""
			return true
		}, false)
		if err != nil {
			return err
		}
		if len(old) > 0 {
			if err := s.exec(ctx, "ALTER TABLE event DELETE WHERE (seq, "+lineDigest+") IN ("+strings.Join(old, ", ")+")"); err != nil {
				return err
			}
		}
	}
}

// copies inserts a changed copy of each line that change changes, at the same
// place.
func (s *Store) copies(ctx context.Context, lines []line, change func(r *event.Row) bool, anonymous bool) error {
	b := s.batch(true)
	for _, l := range lines {
		r, err := s.Parse([]byte(l.text))
		if err != nil {
			return fmt.Errorf("event %d: %w", l.seq, err)
		}
		if r.Seq = l.seq; change(&r) {
			b.add(l.seq, &r, anonymous)
		}
	}
	return b.insert(ctx, "copies")
}

// namelessRows is the most rows that one write makes anonymous, so that no batch waits long.
const namelessRows = 50_000

// forgetClients makes rows of old days anonymous. Each write inserts anonymous copies of some
// rows. When a day has copies of all its rows, the originals are deleted. Two gateways make
// equal copies, of which one is kept. So a failure at any time neither loses nor doubles rows.
func (s *Store) forgetClients(ctx context.Context, now time.Time) error {
	if s.after == 0 || now.Before(s.nextNames) {
		return nil
	}
	end := now.Add(-s.after).UTC().Truncate(24 * time.Hour)
	days, err := s.days(ctx, "anonymous = 0 AND time < "+micros(end))
	if err != nil {
		return err
	}
	for left := namelessRows; left > 0 && len(days) > 0; {
		n, err := s.anonymiseSome(ctx, days[0])
		if err != nil {
			return err
		}
		if left -= n; n < piece {
			if err := s.anonymised(ctx, days[0]); err != nil {
				return err
			}
			days = days[1:]
		}
	}
	if len(days) == 0 {
		s.nextNames = now.Add(sweepEvery)
	}
	return nil
}

// anonymiseSome inserts copies of the next rows of a day, and returns how many.
func (s *Store) anonymiseSome(ctx context.Context, day string) (int, error) {
	of := "toYYYYMMDD(time) = " + day
	query := fmt.Sprintf("SELECT seq, line FROM event WHERE %[1]s AND anonymous = 0 AND seq NOT IN (SELECT seq FROM event WHERE %[1]s AND anonymous = 1) ORDER BY seq LIMIT %[2]d", of, piece)
	lines, err := s.readLines(ctx, query)
	if err != nil {
		return 0, err
	}
	return len(lines), s.copies(ctx, lines, func(r *event.Row) bool {
		r.Anonymise()
		return true
	}, true)
}

// anonymised deletes the rows of a day that have anonymous copies, and duplicate
// copies of two gateways.
func (s *Store) anonymised(ctx context.Context, day string) error {
	of := "toYYYYMMDD(time) = " + day
	err := s.exec(ctx, fmt.Sprintf("ALTER TABLE event DELETE IN PARTITION %[1]s WHERE anonymous = 0 AND seq IN (SELECT seq FROM event WHERE %[2]s AND anonymous = 1)", day, of))
	if err != nil {
		return err
	}
	return s.exec(ctx, "OPTIMIZE TABLE event PARTITION "+day+" FINAL DEDUPLICATE")
}
