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
	odd := filepath.Join(dir, "odd.txt")
	if err := os.WriteFile(odd, []byte("a.example\nwww.a.example\nx y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string // part of the output
	}{
		{[]string{"compile", src, dst}, 0, "2 entries"},
		{[]string{"add", dst, "c.example", "d.example/x"}, 0, ""},
		{[]string{"remove", dst, "a.example"}, 0, ""},
		{[]string{"look", dst, "www.c.example", "d.example/x/y"}, 0, "names, \"c.example\""},
		{[]string{"look", dst, "a.example"}, 1, "a.example: not listed"},
		{[]string{"look", dst, "b.example"}, 0, "names.txt:2"},
		{[]string{"look", dst, "no name", "b.example"}, 2, "names.txt:2"},
		{[]string{"add", dst, "no name"}, 1, "is not a domain name"},
		{[]string{"add", dst}, 2, ""},
		{[]string{"lint", "-format", "auto", odd}, 1, "odd.txt:3: \"x y\" is not a domain name"},
		{[]string{"lint", "-format", "auto", odd}, 1, "odd.txt:2: \"www.a.example\" is covered by \"a.example\""},
		{[]string{"lint", "-format", "auto", src}, 0, "2 lines, 2 entries; 0 refused, 0 there already, 0 covered"},
		{[]string{"lint", "-format", "auto"}, 2, ""},
		{[]string{"diff", src, odd}, 1, "- b.example\n+ www.a.example\n1 added, 1 removed, 1 in both"},
	} {
		var out bytes.Buffer
		got := lists(context.Background(), env{stdin: strings.NewReader(""), stdout: &out, stderr: &out}, tt.args)
		if got != tt.status || !strings.Contains(out.String(), tt.want) {
			t.Errorf("list %q: status %d and %q, want %d and %q", tt.args, got, out.String(), tt.status, tt.want)
		}
	}
}
