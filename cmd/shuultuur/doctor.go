package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"shuultuur/doctor"
	"shuultuur/gateway"
)

const doctorHelp = `
Looks at this machine before it carries load: accept queues, open files, ports,
connection tracking, UDP buffers, clock, entropy, memory, disk, and what the
settings need: certificate, lists, their own form, and for transparent ports
forwarding, the firewall's rules and routes (as root). Says what is low, why that
matters and the line that mends it. It changes nothing but writes some KiB to
the data folder to see how fast it syncs, and removes them.

The exit status is 0 when nothing is low or bad, else 1.`

func doctorCommand(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "doctor", "[-config FILE] [-redis HOST:PORT] [-json]", doctorHelp)
	config := f.String("config", "", "settings `file`; omitted, shuultuur.yaml where there is one")
	redis := f.String("redis", "", "look at the Redis server at `host:port` too")
	asJSON := f.Bool("json", false, "write JSON")
	if status := parse(args); status >= 0 {
		return status
	}
	if f.NArg() > 0 {
		f.Usage()
		return 2
	}
	if *config == "" {
		if _, err := os.Stat("shuultuur.yaml"); !errors.Is(err, fs.ErrNotExist) {
			*config = "shuultuur.yaml"
		}
	}
	cfg := doctorConfig(ctx, *config)
	cfg.Redis = *redis
	r := doctor.Look(ctx, doctor.This{}, cfg)
	write := r.Text
	if *asJSON {
		write = r.JSON
	}
	if err := write(e.stdout); err != nil {
		return fail(e, err)
	}
	if !r.Healthy() {
		return 1
	}
	return 0
}

// doctorConfig takes from the settings in file what doctor looks at. Settings
// with mistakes in them are a finding too.
func doctorConfig(ctx context.Context, file string) doctor.Config {
	cfg := doctor.Config{Settings: file, Connections: 4096, Held: 64 << 20} // proxy's defaults
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		cfg.MemoryLimit = limit
	}
	if file == "" {
		return cfg
	}
	_, done, err := gateway.Explain(ctx, file)
	if err == nil {
		done()
	}
	cfg.Mistakes = err
	s, err := gateway.Read(file)
	if err != nil {
		return cfg
	}
	beside := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(file), path)
	}
	cfg.Data = beside(s.Data)
	if s.Proxy.Connections > 0 {
		cfg.Connections = s.Proxy.Connections
	}
	cfg.Connections *= len(s.Listen.Proxy)
	cfg.Transparent, cfg.TPROXY = s.Listen.Transparent, s.Listen.TPROXY
	if s.Proxy.HeldTotal > 0 {
		cfg.Held = s.Proxy.HeldTotal
	}
	if s.Listen.TLS != nil {
		cfg.Cert = beside(s.Listen.TLS.Cert)
	}
	for name, l := range s.Lists {
		path := beside(l.Path)
		if l.Path == "" { // one that is fetched: when that was last tried
			path = filepath.Join(cfg.Data, "sources", name, "state.json")
			if _, err := os.Stat(path); err != nil {
				continue // the first time is still to come
			}
		}
		cfg.Lists = append(cfg.Lists, doctor.List{Name: name, Path: path})
	}
	slices.SortFunc(cfg.Lists, func(a, b doctor.List) int { return cmp.Compare(a.Name, b.Name) })
	return cfg
}
