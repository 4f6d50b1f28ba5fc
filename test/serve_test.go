package test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// serve implements the command "serve DIR" of stories: a web server for a folder whose files
// may change meanwhile. $ORIGIN is its address.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve DIR")
	}
	dir := os.DirFS(ts.MkAbs(args[0]))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := dir.Open(path.Clean(r.URL.Path)[1:])
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer f.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(f); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(b.Bytes())))
		http.ServeContent(w, r, r.URL.Path, time.Time{}, bytes.NewReader(b.Bytes()))
	}))
	ts.Defer(s.Close)
	ts.Setenv("ORIGIN", s.URL)
}

// fill implements the command "fill FILE": it replaces variables in the file.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fill FILE")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}
