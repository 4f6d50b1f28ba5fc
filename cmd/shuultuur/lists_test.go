package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListEntriesComeAndGo(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "names.txt"), filepath.Join(dir, "names.list")
	if err := os.WriteFile(src, []byte("a.example\nb.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string // in what is printed
	}{
		{[]string{"compile", src, dst}, 0, "2 entries"},
		{[]string{"add", dst, "c.example", "d.example/x"}, 0, ""},
		{[]string{"remove", dst, "a.example"}, 0, ""},
		{[]string{"look", dst, "www.c.example", "d.example/x/y"}, 0, "names, \"c.example\""},
		{[]string{"look", dst, "a.example"}, 1, "a.example: not listed"},
		{[]string{"look", dst, "b.example"}, 0, "names.txt:2"},
		{[]string{"add", dst, "no name"}, 1, "is not a domain name"},
		{[]string{"add", dst}, 2, ""},
	} {
		var out bytes.Buffer
		got := lists(context.Background(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &out}, tt.args)
		if got != tt.status || !strings.Contains(out.String(), tt.want) {
			t.Errorf("list %q: got %d and %q, want %d and %q", tt.args, got, out.String(), tt.status, tt.want)
		}
	}
}
