package system

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"shuultuur/admin/backup"
	"shuultuur/admin/web"
)

// Backups are made, kept, sent here and put back. What a backup would replace is kept first, so that
// there is a way back.

// An ask is a backup that somebody wants to put back.
type ask struct {
	data                []byte
	passphrase, address string
	kept                string // its name, "" if it was sent just now
	sure                bool
}

// A waiting is a backup that was checked and waits for a press of the button.
type waiting struct {
	backup.Entry
	Says             []string
	Address, Encrypt string
}

func (s *System) backupRoutes(show showFunc) []web.Route {
	owner := func(x web.Route, do func(r *http.Request) error) web.Route {
		x.Method, x.Role, x.Effect, x.Gives = "POST", web.Owner, "a backup changes no verdict", web.PageOrJSON
		x.Handler = func(w http.ResponseWriter, r *http.Request) {
			err := do(r)
			switch {
			case web.IsPage(r) && err != nil:
				show(w, r, statusOf(err), pageState{err: err})
			case web.IsPage(r):
				http.Redirect(w, r, "/system#backups", http.StatusSeeOther)
			case err != nil:
				http.Error(w, err.Error(), statusOf(err))
			default:
				web.WriteJSON(w, http.StatusOK, map[string]string{"done": r.URL.Path})
			}
		}
		return x
	}
	return []web.Route{
		owner(web.Route{Path: "/system/backups", Does: "make a backup and keep it here"}, func(*http.Request) error {
			_, err := s.keep()
			return err
		}),
		owner(web.Route{Path: "/system/backups/remove", Does: "remove a backup that is kept here", Form: []web.Field{web.Required("name", "name of the backup")}}, func(r *http.Request) error {
			return s.Kept.Remove(r.FormValue("name"))
		}),
		{Method: "GET", Path: "/system/backups/{name}", Role: web.Owner,
			Does: "a backup that is kept here", Gives: "application/gzip",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				f, err := s.Kept.Open(r.PathValue("name"))
				if err != nil {
					http.Error(w, err.Error(), statusOf(err))
					return
				}
				defer f.Close()
				h := w.Header()
				h.Set("Content-Type", "application/gzip")
				h.Set("Content-Disposition", `attachment; filename="shuultuur-`+strings.TrimSuffix(r.PathValue("name"), ".backup")+`.tar.gz"`)
				h.Set("Cache-Control", "no-store")
				_, _ = io.Copy(w, f) // it fails if the client has gone away
			}},
	}
}

func statusOf(err error) int {
	if errors.Is(err, backup.ErrNotKept) {
		return http.StatusNotFound
	}
	return web.StatusOf(err)
}

// keep makes a backup of what is here.
func (s *System) keep() (backup.Entry, error) {
	return s.Kept.Add(time.Now(), false, func(w io.Writer) error {
		_, err := s.Backup(w)
		return err
	})
}

// readAsk reads a backup from a request: its body, a file of a form, or one that is kept here.
func (s *System) readAsk(w http.ResponseWriter, r *http.Request) (a ask, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBackup)
	in := io.Reader(r.Body)
	a.address, a.sure = r.URL.Query().Get("address"), !web.IsPage(r)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "multipart/form-data":
		if err := r.ParseMultipartForm(maxInMemory); err != nil {
			return a, &web.BadChange{Err: fmt.Errorf("reading the form: %w", err)}
		}
		defer func() { _ = r.MultipartForm.RemoveAll() }() // what is left is a temporary file
		f, _, err := r.FormFile("backup")
		if err != nil {
			return a, &web.BadChange{Err: errors.New("choose the file of a backup")}
		}
		defer f.Close()
		in = f
	case "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return a, &web.BadChange{Err: fmt.Errorf("reading the form: %w", err)}
		}
		a.kept, a.sure = r.PostForm.Get("kept"), r.PostForm.Get("sure") != "" || !web.IsPage(r)
		f, err := s.Kept.Open(a.kept)
		if err != nil {
			return a, err
		}
		defer f.Close()
		in = f
	}
	if r.PostForm != nil {
		a.passphrase, a.address = r.PostFormValue("passphrase"), strings.TrimSpace(r.PostFormValue("address"))
	}
	if a.data, err = io.ReadAll(in); err != nil {
		return a, &web.BadChange{Err: fmt.Errorf("reading the backup, of which %d MiB are taken: %w", maxBackup>>20, err)}
	}
	return a, nil
}

// restore puts a backup back. For a browser it checks it first, and says what it holds. Where two people
// are needed to look into browsing, they are for this, too.
func (s *System) restore(site *web.Site, w http.ResponseWriter, r *http.Request) (does []string, wait *waiting, err error) {
	if s.Restore == nil {
		return nil, nil, &web.BadChange{Err: errors.New("this gateway cannot restore a backup from here")}
	}
	a, err := s.readAsk(w, r)
	if err != nil {
		return nil, nil, err
	}
	if !a.sure && s.Check != nil {
		web.ChangedNothing(w)
		wait, err = s.check(r.Context(), &a)
		return nil, wait, err
	}
	sum := sha256.Sum256(a.data)
	if err := site.Second(r, "restoring a backup", hex.EncodeToString(sum[:])); err != nil {
		return nil, nil, err
	}
	if s.Check != nil && s.Kept != "" {
		if _, err := s.Check(r.Context(), bytes.NewReader(a.data), a.passphrase, a.address); err != nil {
			return nil, nil, &web.BadChange{Err: err}
		}
		if _, err := s.keep(); err != nil {
			return nil, nil, fmt.Errorf("keeping what the backup replaces: %w", err)
		}
	}
	if does, err = s.Restore(r.Context(), bytes.NewReader(a.data), a.passphrase, a.address); err != nil {
		return nil, nil, &web.BadChange{Err: err}
	}
	return does, nil, nil
}

// check says what is in a backup, and keeps it until somebody decides.
func (s *System) check(ctx context.Context, a *ask) (*waiting, error) {
	says, err := s.Check(ctx, bytes.NewReader(a.data), a.passphrase, a.address)
	if err != nil {
		return nil, &web.BadChange{Err: err}
	}
	x := &waiting{Says: says, Address: a.address}
	if a.passphrase != "" {
		x.Encrypt = "yes"
	}
	if a.kept != "" {
		x.Entry = backup.Entry{Name: a.kept}
		return x, nil
	}
	x.Entry, err = s.Kept.Add(time.Now(), true, func(w io.Writer) error {
		_, err := w.Write(a.data)
		return err
	})
	return x, err
}
