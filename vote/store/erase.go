package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"shuultuur/vote"
)

// An erasedCounts has the contributions of erased votes.
type erasedCounts struct {
	tallies map[tallyKey]int64
	open    map[int64]int64 // votes since the last decision, by remedy
	people  map[[2]any]bool // remedy and voter
	votes   int64
}

// Erase implements [vote.Store]. It reduces tallies and cases.
func (d *DB) Erase(ctx context.Context, p *vote.Person, dry bool) (n int64, err error) {
	if dry {
		which, args := conditionFor(p)
		if err := d.read.QueryRowContext(ctx, d.q("SELECT count(*) FROM vote AS v WHERE "+which), args...).Scan(&n); err != nil {
			return 0, fmt.Errorf("counting votes: %w", err)
		}
		return n, nil
	}
	if !d.postgres {
		if _, err := d.db.ExecContext(ctx, "PRAGMA secure_delete = ON"); err != nil {
			return 0, err
		}
	}
	err = d.change(ctx, func(_ *sql.Conn, tx *sql.Tx) error {
		which, args := conditionFor(p)
		g := erasedCounts{tallies: map[tallyKey]int64{}, open: map[int64]int64{}, people: map[[2]any]bool{}}
		if err := d.find(ctx, tx, &g, which, args); err != nil {
			return err
		}
		for _, from := range []string{"occasion AS o WHERE o.vote IN (SELECT v.id FROM vote AS v WHERE " + which + ")",
			"repeated AS r WHERE r.id IN (SELECT v.id FROM vote AS v WHERE " + which + ")", "vote AS v WHERE " + which} {
			if _, err := tx.ExecContext(ctx, d.q("DELETE FROM "+from), args...); err != nil {
				return err
			}
		}
		n = g.votes
		for _, take := range []func(context.Context, *sql.Tx, *erasedCounts) error{d.reduceTallies, d.reduceCases} {
			if err := take(ctx, tx, &g); err != nil {
				return err
			}
		}
		return d.removeNames(ctx, tx, p)
	})
	if err == nil {
		err = d.vacuum(ctx)
	}
	if err != nil {
		return n, fmt.Errorf("erasing votes: %w", err)
	}
	return n, nil
}

// conditionFor returns a condition for the votes of a person.
func conditionFor(p *vote.Person) (which string, args []any) {
	args = make([]any, 0, len(p.Users)+len(p.Clients))
	which = inClause("v.login", p.Users) + " OR " + inClause("v.client", p.Clients)
	for _, s := range slices.Concat(p.Users, p.Clients) {
		args = append(args, s)
	}
	return which, args
}

// inClause returns a condition for the values of a column.
func inClause(column string, names []string) string {
	if len(names) == 0 {
		return "1 = 0"
	}
	return column + " <> '' AND " + column + " IN (" + strings.TrimSuffix(strings.Repeat("?,", len(names)), ",") + ")"
}

// find looks for the rows that votes have changed.
func (d *DB) find(ctx context.Context, tx *sql.Tx, g *erasedCounts, which string, args []any) error {
	found, err := tx.QueryContext(ctx, d.q(`SELECT v.remedy, v.kind, v.voter, v.groups, v.host, v.url, v.at, m.remedy, m.checked, m.category, m.since,
		EXISTS (SELECT 1 FROM repeated AS r WHERE r.id = v.id) FROM vote AS v JOIN matter AS m ON m.id = v.remedy WHERE `+which), args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var remedy, at, since int64
		var kind vote.Kind
		var repeated bool
		var voter, groups, host, url, text, check, category string
		if err := found.Scan(&remedy, &kind, &voter, &groups, &host, &url, &at, &text, &check, &category, &since, &repeated); err != nil {
			return err
		}
		if g.votes++; repeated {
			continue
		}
		entry, ok := strings.CutPrefix(text, check+"/"+category+": ")
		if !ok {
			entry = ""
		}
		for dim, name := range []string{host, url, category, entry} {
			if name != "" {
				g.tallies[tallyKey{dim, name, kind}]++
			}
		}
		if groups != "" {
			for name := range strings.SplitSeq(groups, "\n") {
				g.tallies[tallyKey{4, name, kind}]++
			}
		}
		if g.people[[2]any{remedy, voter}] = true; at > since {
			g.open[remedy]++
		}
	}
	return found.Err()
}

func (d *DB) reduceTallies(ctx context.Context, tx *sql.Tx, g *erasedCounts) error {
	for k, n := range g.tallies {
		if _, err := tx.ExecContext(ctx, d.q("UPDATE tally SET n = n - ? WHERE dimension = ? AND name = ? AND kind = ?"), n, k.dimension, k.name, int64(k.kind)); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM tally WHERE n <= 0")
	return err
}

func (d *DB) reduceCases(ctx context.Context, tx *sql.Tx, g *erasedCounts) error {
	for k := range g.people {
		done, err := tx.ExecContext(ctx, d.q("DELETE FROM person WHERE remedy = ? AND voter = ?"), k[0], k[1])
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err == nil && n > 0 {
			_, err = tx.ExecContext(ctx, d.q("UPDATE matter SET people = people - ? WHERE id = ?"), n, k[0])
		}
		if err != nil {
			return err
		}
	}
	for remedy, n := range g.open {
		if _, err := tx.ExecContext(ctx, d.q("UPDATE matter SET n = n - ? WHERE id = ?"), n, remedy); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM matter WHERE n <= 0 AND decision = 0 AND NOT EXISTS (SELECT 1 FROM vote WHERE vote.remedy = matter.id)")
	return err
}

// removeNames removes the person's names from others' comments, from decisions,
// and from cases without votes.
func (d *DB) removeNames(ctx context.Context, tx *sql.Tx, p *vote.Person) error {
	for _, name := range slices.Concat(p.Users, p.Clients) {
		for _, s := range []string{"DELETE FROM person WHERE voter = ?", "UPDATE decision SET who = 'erased' WHERE who = ?"} {
			if _, err := tx.ExecContext(ctx, d.q(s), name); err != nil {
				return err
			}
		}
	}
	if p.Named == nil {
		return nil
	}
	for _, t := range [][3]string{{"vote", "id", "comment"}, {"decision", "id", "reason"}, {"decision", "id", "author"}} {
		if err := d.blank(ctx, tx, t[0], t[1], t[2], p.Named); err != nil {
			return err
		}
	}
	return nil
}

// blank empties texts.
func (d *DB) blank(ctx context.Context, tx *sql.Tx, table, key, column string, match func(string) bool) error {
	found, err := tx.QueryContext(ctx, "SELECT "+key+", "+column+" FROM "+table+" WHERE "+column+" <> ''")
	if err != nil {
		return err
	}
	var keys []any
	for found.Next() {
		var k any
		var text string
		if err := found.Scan(&k, &text); err != nil {
			return errors.Join(err, found.Close())
		}
		if match(text) {
			keys = append(keys, k)
		}
	}
	if err := errors.Join(found.Err(), found.Close()); err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := tx.ExecContext(ctx, d.q("UPDATE "+table+" SET "+column+" = '' WHERE "+key+" = ?"), k); err != nil {
			return err
		}
	}
	return nil
}

const (
	checkpointTries = 100
	checkpointPause = 50 * time.Millisecond
)

// vacuum rewrites the database, so that neither its pages nor its log contain
// deleted data.
func (d *DB) vacuum(ctx context.Context) error {
	if d.postgres {
		_, err := d.db.ExecContext(ctx, "VACUUM vote, occasion, repeated, tally, matter, person, decision")
		return err
	}
	if _, err := d.db.ExecContext(ctx, "VACUUM"); err != nil {
		return err
	}
	for range checkpointTries {
		var busy, pages, moved int64
		if err := d.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil {
			return err
		}
		if busy == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(checkpointPause):
		}
	}
	return errors.New("the votes are deleted, but readers keep the database's log from being written back; erase again")
}
