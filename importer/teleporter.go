package importer

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// teleported unpacks an export of Pi-hole's Teleporter: a ZIP archive since version 6, a tar
// archive before, into a folder. It returns that, or file itself where it is no archive.
func teleported(ctx context.Context, file, into string) (dir string, err error) {
	if !isFile(file) || strings.HasSuffix(file, ".db") {
		return file, nil
	}
	data, err := readWhole(file)
	if err != nil {
		return "", err
	}
	switch {
	case bytes.HasPrefix(data, []byte("PK")):
		err = unzip(data, func(name string, r io.Reader) error { return unpack(into, name, r) })
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		err = untar(data, func(name string, r io.Reader) error { return unpack(into, name, r) })
	default:
		return file, nil
	}
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", file, err)
	}
	return into, gravityOf(ctx, into)
}

func unzip(data []byte, take func(name string, r io.Reader) error) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, f := range z.File[:min(len(z.File), maxFiles)] {
		r, err := f.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(take(f.Name, r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

func untar(data []byte, take func(name string, r io.Reader) error) error {
	g, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	t := tar.NewReader(g)
	for range maxFiles {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if err := take(h.Name, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// unpack writes a file of an archive where Pi-hole's own folder would have it: files of
// /etc/dnsmasq.d in a folder of that name, the others beside each other.
func unpack(dir, name string, r io.Reader) error {
	to := filepath.Join(dir, path.Base(name))
	if path.Base(path.Dir(name)) == "dnsmasq.d" {
		to = filepath.Join(dir, "dnsmasq.d", path.Base(name))
	}
	if strings.HasSuffix(name, "/") || path.Base(name) == "hosts" { // which is the machine's own
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return err
	}
	if len(data) > maxFile {
		return fmt.Errorf("%s is larger than %d MiB", name, maxFile>>20)
	}
	return os.WriteFile(to, data, 0o600)
}

// gravityTables are those of gravity.db that version 5 exports as JSON, with their columns. Its
// domainlist is in a file for each type, in the order of their numbers.
var gravityTables = []struct{ table, columns, files string }{
	{"group", "id INTEGER, enabled INTEGER, name TEXT", "group"},
	{"adlist", "id INTEGER, address TEXT, enabled INTEGER", "adlist"},
	{"domainlist", "id INTEGER, domain TEXT, enabled INTEGER, type INTEGER", "whitelist.exact blacklist.exact whitelist.regex blacklist.regex"},
	{"client", "id INTEGER, ip TEXT", "client"},
	{"adlist_by_group", "adlist_id INTEGER, group_id INTEGER", "adlist_by_group"},
	{"domainlist_by_group", "domainlist_id INTEGER, group_id INTEGER", "domainlist_by_group"},
	{"client_by_group", "client_id INTEGER, group_id INTEGER", "client_by_group"},
}

// gravityOf makes gravity.db of the files of JSON that version 5 exports instead.
func gravityOf(ctx context.Context, dir string) (err error) {
	file := filepath.Join(dir, "gravity.db")
	if isFile(file) || !isFile(filepath.Join(dir, "adlist.json")) {
		return nil
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // of no effect after Commit
	for _, t := range gravityTables {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE "`+t.table+`" (`+t.columns+`)`); err != nil {
			return err
		}
		columns := strings.Split(t.columns, ", ")
		insert := `INSERT INTO "` + t.table + `" VALUES (?` + strings.Repeat(", ?", len(columns)-1) + `)`
		for kind, name := range strings.Fields(t.files) {
			rows, err := jsonRows(filepath.Join(dir, name+".json"))
			if err != nil {
				return err
			}
			for _, row := range rows {
				values := make([]any, len(columns))
				for i, c := range columns {
					if c, _, _ = strings.Cut(c, " "); c == "type" {
						row[c] = kind
					}
					values[i] = row[c]
				}
				if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
					return fmt.Errorf("%s.json: %w", name, err)
				}
			}
		}
	}
	return tx.Commit()
}

// jsonRows are the rows in a file, none where it is not there.
func jsonRows(file string) (rows []map[string]any, err error) {
	if !isFile(file) {
		return nil, nil
	}
	data, err := readWhole(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return rows, nil
}
