package pihole

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

	"shuultuur/tool/importer/input"
)

// maxUnpacked is the most bytes that are unpacked from an archive.
const maxUnpacked = 1 << 30

// An unpacking writes the files of an archive into a folder.
type unpacking struct {
	into        string
	files, more int // files that were written, and files left out
	left        int64
}

// unpackTeleporter unpacks what Pi-hole's Teleporter exports: a ZIP archive since version 6, a tar
// archive before, into a folder. It returns the folder, or file itself if that is no archive,
// and the number of files that it left out because there were too many.
func unpackTeleporter(ctx context.Context, file, into string) (dir string, more int, err error) {
	if !input.IsFile(file) || strings.HasSuffix(file, ".db") {
		return file, 0, nil
	}
	data, err := input.Whole(file)
	if err != nil {
		return "", 0, err
	}
	u := &unpacking{into: into, left: maxUnpacked}
	switch {
	case bytes.HasPrefix(data, []byte("PK")):
		err = u.unzip(data)
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		err = u.untar(data)
	default:
		return file, 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("unpacking %s: %w", file, err)
	}
	return into, u.more, gravityOf(ctx, into)
}

func (u *unpacking) unzip(data []byte) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if err := errors.Join(u.take(f.Name, r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) untar(data []byte) error {
	g, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	limited := &io.LimitedReader{R: g, N: 2 * maxUnpacked} // it counts skipped bytes, too
	for t := tar.NewReader(limited); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if err := u.take(h.Name, t); err != nil {
				return err
			}
		}
	}
}

// take writes a file of an archive where Pi-hole's own folder would have it: files of
// /etc/dnsmasq.d in a folder of that name, the others beside each other.
func (u *unpacking) take(name string, r io.Reader) error {
	if strings.HasSuffix(name, "/") || path.Base(name) == "hosts" { // it belongs to the machine
		return nil
	}
	if u.files == input.MaxFiles {
		u.more++
		return nil
	}
	u.files++
	to := filepath.Join(u.into, path.Base(name))
	if path.Base(path.Dir(name)) == "dnsmasq.d" {
		to = filepath.Join(u.into, "dnsmasq.d", path.Base(name))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(r, input.MaxFile+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	u.left -= int64(len(data))
	switch {
	case len(data) > input.MaxFile:
		return fmt.Errorf("%s is larger than %d MiB", name, input.MaxFile>>20)
	case u.left < 0:
		return fmt.Errorf("its files have more than %d MiB", maxUnpacked>>20)
	}
	return os.WriteFile(to, data, 0o600)
}

// gravityTables has those tables of gravity.db that version 5 exports as JSON, with their
// columns. Its domainlist is in one file for each type, in the order of their numbers.
var gravityTables = []struct{ table, columns, files string }{
	{"group", "id INTEGER, enabled INTEGER, name TEXT", "group"},
	{"adlist", "id INTEGER, address TEXT, enabled INTEGER", "adlist"},
	{"domainlist", "id INTEGER, domain TEXT, enabled INTEGER, type INTEGER", "whitelist.exact blacklist.exact whitelist.regex blacklist.regex"},
	{"client", "id INTEGER, ip TEXT", "client"},
	{"adlist_by_group", "adlist_id INTEGER, group_id INTEGER", "adlist_by_group"},
	{"domainlist_by_group", "domainlist_id INTEGER, group_id INTEGER", "domainlist_by_group"},
	{"client_by_group", "client_id INTEGER, group_id INTEGER", "client_by_group"},
}

// gravityOf makes gravity.db from the JSON files that version 5 exports instead.
func gravityOf(ctx context.Context, dir string) (err error) {
	file := filepath.Join(dir, "gravity.db")
	if input.IsFile(file) || !input.IsFile(filepath.Join(dir, "adlist.json")) {
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
	defer tx.Rollback() // has no effect after Commit
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

// jsonRows returns the rows in a file, or none if it does not exist.
func jsonRows(file string) (rows []map[string]any, err error) {
	if !input.IsFile(file) {
		return nil, nil
	}
	data, err := input.Whole(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return rows, nil
}
