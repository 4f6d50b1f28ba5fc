package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"shuultuur/event"
)

// Erase takes out the rows of a person, and has the server take back the room
// that they had.
func (s *Store) Erase(ctx context.Context, p event.Person) (int64, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	clients := make([]string, len(p.Clients))
	for i, a := range p.Clients {
		clients[i] = a.String()
	}
	tag, err := s.pool.Exec(ctx, "DELETE FROM event WHERE name = ANY($1::text[]) AND name <> '' OR client = ANY($2::text[]::inet[])", append([]string{}, p.Users...), clients)
	if err == nil {
		err = s.eraseNotes(ctx, p)
	}
	if err == nil {
		_, err = s.pool.Exec(ctx, "VACUUM event")
	}
	if err != nil {
		return tag.RowsAffected(), fmt.Errorf("erase events from PostgreSQL: %w", err)
	}
	return tag.RowsAffected(), nil
}

// eraseNotes takes the notes out of others' rows that name the person.
func (s *Store) eraseNotes(ctx context.Context, p event.Person) error {
	words := append([]string{}, p.Users...)
	for _, a := range p.Clients {
		words = append(words, a.String())
	}
	type noted struct {
		Seq  int64
		Line string
	}
	rows, err := s.pool.Query(ctx, "SELECT seq, line FROM event WHERE EXISTS (SELECT FROM unnest($1::text[]) AS word WHERE strpos(line, word) > 0)", words)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[noted])
	if err != nil {
		return err
	}
	for _, n := range all {
		r, err := s.Parse([]byte(n.Line))
		if err != nil || !p.In(r.Note) {
			continue // a URL or a host may hold the word, and is not about the person
		}
		r.Note = ""
		if _, err := s.pool.Exec(ctx, "UPDATE event SET line = $2 WHERE seq = $1", n.Seq, plain(string(s.Append(nil, &r)))); err != nil {
			return err
		}
	}
	return nil
}
