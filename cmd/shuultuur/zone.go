package main

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"shuultuur/nameserver/zone"
)

// zoneCommands are what "shuultuur zone" has.
func zoneCommands() []command {
	return []command{
		{"check", "[-origin NAME] FILE...", "look at zone files and name every mistake", zoneCheck},
		{"load", "[flags] FILE...", "put zone files into Redis", zoneLoad},
		{"export", "[flags] [ORIGIN...]", "print zones in Redis as zone files", zoneExport},
		{"import", "CONFIG.json", "make settings of those of redins or z42", zoneImport},
		{"keygen", "[-dir DIR] ZONE", "make the keys that sign a zone", zoneKeygen},
		{"roll", "[-dir DIR] ZONE", "change the key that the parent knows", zoneRoll},
		{"ds", "KEY...", "print the DS records for the parent zone", zoneDS},
		{"sign", "-key KEY ZONE FILE", "sign a zone file and print it", zoneSign},
	}
}

func zoneCommand(ctx context.Context, e env, args []string) int {
	var help strings.Builder
	for _, c := range zoneCommands() {
		if len(args) > 0 && c.name == args[0] {
			return c.run(ctx, e, args[1:])
		}
		fmt.Fprintf(&help, "%-8s %-24s %s\n", c.name, c.args, c.what)
	}
	f, parse := flags(e, "zone", "COMMAND [arguments]", help.String())
	if status := parse(args); status >= 0 {
		return status
	}
	f.Usage()
	return 2
}

const zoneCheckHelp = `
Reads zone files (RFC 1035 section 5) and prints what is wrong with each, with
file and line. An error keeps the zone from being served; a warning does not.
The origin is that of the flag, else the file's name without .zone. The exit
status is 1 when there is an error.`

func zoneCheck(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "zone check", "[-origin NAME] FILE...", zoneCheckHelp)
	origin := f.String("origin", "", "`name` of the zone")
	if status := parse(args); status >= 0 {
		return status
	}
	if f.NArg() == 0 || *origin != "" && f.NArg() > 1 {
		f.Usage()
		return 2
	}
	status := 0
	for _, file := range f.Args() {
		name := *origin
		if name == "" {
			name = strings.TrimSuffix(filepath.Base(file), ".zone")
		}
		z, err := zone.ReadFile(file, name)
		if err != nil {
			fmt.Fprintln(e.stdout, err)
			status = 1
			continue
		}
		fatal := false
		for _, p := range zone.Check(z) {
			fmt.Fprintln(e.stdout, p)
			fatal = fatal || p.Fatal
		}
		if fatal {
			status = 1
			continue
		}
		info, err := compiled(z)
		if err != nil {
			return fail(e, err)
		}
		fmt.Fprintf(e.stdout, "%s: zone %s, serial %d: %d records at %d names\n", file, info.Origin, info.Serial, info.Records, info.Names)
	}
	return status
}

// compiled says what a zone is when it is served.
func compiled(z *zone.Zone) (zone.Info, error) {
	r := zone.NewResponder()
	if err := r.Replace(z); err != nil {
		return zone.Info{}, err
	}
	return r.Zone(z.Origin, netip.Addr{}).Info(), nil
}
