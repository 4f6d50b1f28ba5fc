package postgres

import (
	"context"
	"fmt"
	"strconv"

	"shuultuur/event"
)

// Erase removes the rows of a person, and makes the server free their space.
func (s *Store) Erase(ctx context.Context, p event.Person, dry bool) (int64, error) {
	if dry {
		return p.Count(ctx, s)
	}
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	clients := make([]string, len(p.Clients))
	for i, a := range p.Clients {
		clients[i] = a.String()
	}
	seqs, err := s.texts(ctx, "DELETE FROM event WHERE name = ANY($1::text[]) AND name <> '' OR client = ANY($2::text[]::inet[]) RETURNING seq::text", append([]string{}, p.Users...), clients)
	n := int64(len(seqs))
	if err == nil {
		err = s.eraseNotes(ctx, p, &seqs)
	}
	if err == nil {
		err = s.renew(ctx, seqs)
	}
	if err == nil {
		_, err = s.db.ExecContext(ctx, "VACUUM event, event_part")
	}
	if err != nil {
		return 0, fmt.Errorf("erase events from PostgreSQL: %w", err)
	}
	return n, nil
}

// eraseNotes removes notes that name the person from others' rows, and adds the Seq of each to seqs.
func (s *Store) eraseNotes(ctx context.Context, p event.Person, seqs *[]string) error {
	words := append([]string{}, p.Users...)
	for _, a := range p.Clients {
		words = append(words, a.String())
	}
	type noted struct {
		seq  int64
		line string
	}
	var all []noted
	rows, err := s.db.QueryContext(ctx, "SELECT seq, line FROM event WHERE EXISTS (SELECT FROM unnest($1::text[]) AS word WHERE strpos(line, word) > 0)", words)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n noted
		if err := rows.Scan(&n.seq, &n.line); err != nil {
			return err
		}
		all = append(all, n)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, n := range all {
		r, err := s.Parse([]byte(n.line))
		if err != nil || !p.In(r.Note) {
			continue // the word is in a URL or host, which is not about the person
		}
		r.Note = ""
		if _, err := s.db.ExecContext(ctx, "UPDATE event SET line = $2, words = $3 WHERE seq = $1", n.seq, plain(string(s.Append(nil, &r))), searched(&r)); err != nil {
			return err
		}
		*seqs = append(*seqs, strconv.FormatInt(n.seq, 10))
	}
	return nil
}
