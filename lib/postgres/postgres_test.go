package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/postgres"
	"shuultuur/test/peer"
)

// open starts a server and opens an empty database of it.
func open(t *testing.T) (*sql.DB, *peer.Postgres) {
	server := peer.NewPostgres(t)
	url, err := server.Database("db" + strings.ToLower(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(url, 10*time.Second, func(_ context.Context, exec func(string) error) error {
		return exec("CREATE TABLE IF NOT EXISTS x (n bigint, f float8, b bool, t text, y bytea, at timestamptz, a text[]); SELECT 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, server
}

var nasty = []string{"", "plain", `\`, `\N`, `\.`, "a\tb\nc\rd", `"{},`, "\\t", "ж\u2028", strings.Repeat(`\"`, 40_000), "NULL"}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	db, _ := open(t)
	ctx := t.Context()
	at := time.Date(2026, 3, 1, 23, 59, 59, 123456000, time.FixedZone("", 5400))
	var rows [][]any
	for i, s := range nasty {
		rows = append(rows, []any{int64(i), float64(i) / 3, i%2 == 0, s, []byte(s), at, nasty[:i]})
	}
	rows = append(rows, []any{int64(math.MinInt64), math.Inf(1), nil, nil, []byte{0, 255}, nil, nil})
	for name, insert := range map[string]func(*sql.Conn) error{
		"copy": func(c *sql.Conn) error {
			n, err := postgres.Copy(ctx, c, "x", []string{"n", "f", "b", "t", "y", "at", "a"}, func(yield func([]any) bool) {
				for _, r := range rows {
					if !yield(r) {
						return
					}
				}
			})
			if err == nil && n != int64(len(rows)) {
				return fmt.Errorf("Copy copied %d rows", n)
			}
			return err
		},
		"values": func(c *sql.Conn) error {
			for _, r := range rows {
				if _, err := c.ExecContext(ctx, "INSERT INTO x VALUES ($1, $2, $3, $4, $5, $6, $7)", r...); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.ExecContext(ctx, "TRUNCATE x"); err != nil {
				t.Fatal(err)
			}
			if err := insert(c); err != nil {
				t.Fatal(err)
			}
			found, err := c.QueryContext(ctx, "SELECT n, f, b, t, y, at, a = $1::text[] FROM x ORDER BY ctid", nasty[:2])
			if err != nil {
				t.Fatal(err)
			}
			defer found.Close()
			n := 0
			for ; found.Next(); n++ {
				got := make([]any, 7)
				into := make([]any, 7)
				for i := range got {
					into[i] = &got[i]
				}
				if err := found.Scan(into...); err != nil {
					t.Fatal(err)
				}
				want := append([]any(nil), rows[n]...)
				for i, g := range got {
					switch w := want[i].(type) {
					case []byte:
						if !bytes.Equal(g.([]byte), w) {
							t.Errorf("row %d: the bytes differ from those copied", n)
						}
					case time.Time:
						if !g.(time.Time).Equal(w) {
							t.Errorf("row %d: %v, want %v", n, g, w)
						}
					case []string:
						if g != (len(w) == 2) {
							t.Errorf("row %d: the server compares the array %q as %v, want the opposite", n, w, g)
						}
					default:
						if !reflect.DeepEqual(g, w) {
							t.Errorf("row %d, column %d: %v, want %v", n, i, g, w)
						}
					}
				}
			}
			if err := found.Err(); err != nil || n != len(rows) {
				t.Errorf("read %d rows, want %d: %v", n, len(rows), err)
			}
		})
	}
}

func TestTransactionsAndErrors(t *testing.T) {
	db, _ := open(t)
	db.SetMaxOpenConns(1) // every iteration uses the same connection, which must not be left in a bad state
	ctx := t.Context()
	count := func(want int) {
		t.Helper()
		var n int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM x").Scan(&n); err != nil || n != want {
			t.Fatalf("read %d rows, want %d: %v", n, want, err)
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := tx.Exec("INSERT INTO x (n) SELECT generate_series(1, $1::int)", 10); err != nil {
		t.Fatal(err)
	} else if n, _ := done.RowsAffected(); n != 10 {
		t.Errorf("%d rows affected, want 10", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	count(0)
	tx, _ = db.BeginTx(ctx, nil)
	if _, err := tx.Exec("INSERT INTO missing VALUES (1)"); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("inserting into a missing table: %v, want an error that names it", err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("Commit of a failed transaction returns no error")
	}
	if _, err := db.QueryContext(ctx, "SELECT * FROM missing"); err == nil {
		t.Error("reading a missing table returns no error")
	}
	rows, err := db.QueryContext(ctx, "SELECT 1/n FROM generate_series(-1, 1) n")
	for err == nil && rows.Next() {
	}
	if err == nil {
		err = rows.Err()
	}
	if err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Errorf("an error after the first row: %v, want division by zero", err)
	}
	rows, err = db.QueryContext(ctx, "SELECT n FROM generate_series(1, 100000) n")
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	_ = rows.Close() // early
	count(0)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(short, "SELECT pg_sleep(30)"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a statement whose context ended: %v, want deadline exceeded", err)
	}
	count(0)
}

func TestServerReturns(t *testing.T) {
	db, server := open(t)
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRowContext(t.Context(), "SELECT 1").Scan(new(int)); err != nil {
		t.Error(err)
	}
}

func TestURLs(t *testing.T) {
	if _, err := postgres.Open("postgres://u:secret@host:port/db", time.Second, nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open of a bad URL: %v, want an error without the password", err)
	}
}
