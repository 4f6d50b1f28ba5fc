//go:build !small

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"shuultuur/engine/starter"
	"shuultuur/gateway"
	tour "shuultuur/tool/demo"
)

const demoHelp = `
Starts an origin with a few sample pages and, before it, the gateway with the
starter settings; sends requests through, asks its name server for names, and
prints what became of each. No internet is needed and nothing is left behind.

With -stay it keeps running after the table, so that you can point a browser at
the gateway and look at the pages it names.`

func demo(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "demo", "[-stay]", demoHelp)
	stay := f.Bool("stay", false, "keep running until interrupted")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	dir, err := os.MkdirTemp("", "shuultuur-demo-")
	if err != nil {
		return fail(e, err)
	}
	defer os.RemoveAll(dir)
	err = tour.Run(ctx, e.stdout, *stay, func(ctx context.Context, adapt func(string) string) (tour.Gateway, error) {
		if err := starter.Write(dir); err != nil {
			return nil, err
		}
		settings := filepath.Join(dir, "shuultuur.yaml")
		if err := os.WriteFile(settings, []byte(adapt(string(starter.Settings()))), 0o644); err != nil {
			return nil, err
		}
		return gateway.New(ctx, settings, slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	})
	return finish(e, err)
}
