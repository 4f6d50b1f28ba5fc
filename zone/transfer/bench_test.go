package transfer_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/zone"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

// BenchmarkRestart starts with a zone file of 100,000 names, whose signatures
// were kept, until they are served.
func BenchmarkRestart(b *testing.B) {
	dir := b.TempDir()
	key, err := sign.Generate("example.com", "ecdsap256sha256", true)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := key.Write(dir); err != nil {
		b.Fatal(err)
	}
	c := transfer.Config{
		Folder: setting.Folder(dir),
		Sign:   []transfer.Sign{{Zones: []string{"example.com"}, Config: sign.Config{Keys: []setting.Source{setting.Source(dir)}}}},
	}
	file := filepath.Join(dir, "example.com.zone")
	write(b, dir, "example.com.zone", text(b, 1, 100_000))
	run := func() *transfer.Server {
		s, err := transfer.New(c, zone.NewResponder(), nil, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := zone.NewFiles(zone.Config{Files: []zone.File{{Path: setting.Source(file)}}}, "", s, nil, slog.New(slog.DiscardHandler)); err != nil {
			b.Fatal(err)
		}
		return s
	}
	if !run().Save() {
		b.Fatal("Save failed")
	}
	for b.Loop() {
		run()
	}
}
