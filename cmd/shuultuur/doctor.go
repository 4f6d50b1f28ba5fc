//go:build !small

package main

import (
	"cmp"
	"context"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/home"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/gateway"
	"shuultuur/lib/datadir"
	"shuultuur/lib/dns"
	"shuultuur/resolver/forward"
	"shuultuur/tool/doctor"
)

const doctorHelp = `
Looks at this machine before it carries load: accept queues, open files, ports,
connection tracking, UDP buffers, clock, entropy, memory, disk, what the gateway
that runs writes in a day, and what the settings need: certificate, lists, their own form; for transparent ports
forwarding, the firewall's rules and routes (as root); for the name server its
ports, upstreams, which are asked, and zones in Redis. Says what is low, why that
matters and the line that mends it. It changes nothing but writes some KiB to
the data folder to see how fast it syncs, and removes them.

The exit status is 0 when nothing is low or bad, else 1.`

func doctorCommand(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "doctor", "[-config FILE] [-redis HOST:PORT] [-json]", doctorHelp)
	config := f.String("config", "", "settings `file`; omitted, shuultuur.yaml here or that of the service, where there is one")
	redis := f.String("redis", "", "check the Redis server at `host:port` too")
	asJSON := f.Bool("json", false, "write JSON")
	if status := parse(args, 0, 0); status >= 0 {
		return status
	}
	cfg := doctorConfig(ctx, usualFile(*config))
	cfg.Redis = *redis
	r := doctor.Look(ctx, doctor.ThisMachine{}, cfg)
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

// doctorConfig reads the settings that doctor inspects from file. It reports mistakes in the
// settings as a finding, too.
func doctorConfig(ctx context.Context, file string) doctor.Config {
	cfg := doctor.Config{Settings: file, Connections: 4096, Held: 64 << 20} // defaults of the proxy
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		cfg.MemoryLimit = limit
	}
	if file == "" {
		return cfg
	}
	_, done, err := engine.Explain(ctx, file)
	if err == nil {
		done()
	}
	cfg.Mistakes = err
	s, err := configuration.Read(file)
	if err != nil {
		return cfg
	}
	ofMachineAlone(&cfg, s)
	for _, a := range s.Listen.Transparent {
		cfg.Transparent = append(cfg.Transparent, string(a))
	}
	for _, a := range s.Listen.TPROXY {
		cfg.TPROXY = append(cfg.TPROXY, string(a))
	}
	cfg.Names = doctorNames(s)
	return cfg
}

// remark makes the start page show every hour what doctor finds low on this machine. The health
// of the gateway covers what the gateway itself uses, such as ports and upstreams.
func remark(ctx context.Context, g *gateway.Gateway) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for ctx.Err() == nil {
		g.Remark(func(file string) (all []home.Remark) {
			cfg := doctor.Config{Settings: file, Connections: 4096, Held: 64 << 20}
			if s, err := configuration.Read(file); err == nil {
				ofMachineAlone(&cfg, s)
			}
			for _, f := range doctor.Look(ctx, doctor.ThisMachine{}, cfg).Findings {
				if f.Level == doctor.Low || f.Level == doctor.Bad {
					all = append(all, home.Remark{About: f.About, Found: f.Found, Wanted: f.Wanted, Why: f.Why, Mend: f.Mend})
				}
			}
			return all
		})
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// ofMachineAlone sets the subjects of inspection that no running gateway changes.
func ofMachineAlone(cfg *doctor.Config, s *configuration.Settings) {
	cfg.Data = string(s.Data)
	if h, err := datadir.HolderOf(cfg.Data); err == nil {
		cfg.Process = h.Process
	}
	cfg.Often = s.Events.Every < time.Minute
	cfg.Connections = s.Proxy.Connections.Or(cfg.Connections)
	cfg.Connections *= len(s.Listen.Proxy)
	cfg.Held = s.Proxy.Exchange.HeldTotal.Or(cfg.Held)
	if s.Listen.TLS != nil {
		cfg.Cert = string(s.Listen.TLS.Cert)
	}
	for name, l := range s.Lists {
		path := string(l.Path)
		if l.Path == "" { // for a fetched list, the time of the last attempt
			path = filepath.Join(cfg.Data, "sources", name, "state.json")
			if _, err := os.Stat(path); err != nil {
				continue // it was not fetched yet
			}
		}
		cfg.Lists = append(cfg.Lists, doctor.List{Name: name, Path: path})
	}
	slices.SortStableFunc(cfg.Lists, func(a, b doctor.List) int { return cmp.Compare(a.Name, b.Name) })
}

// doctorNames reads the settings of the name server that doctor inspects.
func doctorNames(s *configuration.Settings) *doctor.Names {
	d := s.DNS
	if d == nil {
		return nil
	}
	n := &doctor.Names{Listen: d.Server.Listen, Cert: string(d.Server.Cert), Upstreams: d.Forward.Upstreams, Validate: d.Forward.Validate}
	if len(n.Upstreams) == 0 {
		n.Upstreams = []string{"the system's"}
	}
	n.Ask = func(ctx context.Context, upstream string) (secure bool, err error) {
		cfg := d.Forward
		cfg.Routes, cfg.Own = nil, d.Server.Addresses()
		if len(cfg.Upstreams) > 0 {
			cfg.Upstreams = []string{upstream}
		}
		f, err := forward.New(cfg)
		if err != nil {
			return false, err
		}
		defer f.Close()
		msg, _, err := f.Ask(ctx, []byte{0}, dns.TypeSOA, dns.ClassIN, true, false)
		if err != nil {
			return false, err
		}
		return msg[3]&0x20 != 0, nil // the flag AD
	}
	if r := d.Redis; r != nil && len(r.Redis.Addresses) > 0 {
		n.Redis, n.SetNotify = r.Redis.Addresses[0], r.SetNotify
		if _, _, err := net.SplitHostPort(n.Redis); err != nil {
			n.Redis = net.JoinHostPort(n.Redis, "6379")
		}
		n.RedisClosed = r.Redis.Password != "" || r.Redis.TLS != nil || r.Redis.Sentinel != ""
	}
	for name, l := range s.Lists {
		n.DoH = n.DoH || strings.Contains(name+" "+l.Category+" "+l.Fetch.Source, "doh")
	}
	return n
}
